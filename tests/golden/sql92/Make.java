import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * Runs expressions over messages with Apache RocketMQ's own classes, on the same path as its broker.
 *
 * Input lines: "P base64" adds a message (its raw property string), "E base64" evaluates an expression.
 * The output has one line for each expression: "E" when it does not compile, else one letter per message:
 * T true, F false, N null, X an exception.
 */
public class Make {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        List<EvaluationContext> messages = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String text = new String(Base64.getDecoder().decode(line.substring(2)), StandardCharsets.UTF_8);
            if (line.charAt(0) == 'P') {
                messages.add(new MessageEvaluationContext(MessageDecoder.string2messageProperties(text)));
            } else {
                out.println(answers(text, messages));
            }
        }
        out.flush();
    }

    private static String answers(String text, List<EvaluationContext> messages) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable refused) {
            return "E";
        }
        StringBuilder answers = new StringBuilder();
        for (EvaluationContext message : messages) {
            answers.append(answer(expression, message));
        }
        return answers.toString();
    }

    private static char answer(Expression expression, EvaluationContext message) {
        Object result;
        try {
            result = expression.evaluate(message);
        } catch (Throwable failed) {
            return 'X';
        }
        if (result == null) {
            return 'N';
        }
        return (Boolean) result ? 'T' : 'F';
    }
}
