package interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after the other in one JVM: a line of tab separated words in, a line of JSON out.
 * Words that start with "!" start the clients that some commands query.
 */
public final class AdminDriver {
    /** The client's default of 3 s is too short on a busy machine. */
    private static final int CALL_TIMEOUT_MS = 30_000;

    private static String namesrv;
    private static DefaultMQProducer producer;
    private static DefaultMQPushConsumer consumer;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        System.setProperty("rocketmq.namesrv.addr", namesrv);
        PrintStream answers = System.out;
        hurryShutdowns(Thread.currentThread());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            String[] words = line.split("\t", -1);
            try {
                if (words[0].equals("!until")) {
                    runUntil(printed, words[1], Arrays.copyOfRange(words, 2, words.length));
                } else if (words[0].startsWith("!")) {
                    act(words);
                } else {
                    runCommand(words);
                }
            } catch (Throwable failure) {
                failure.printStackTrace(capture);
            }
            capture.flush();
            answers.println(quote(printed.toString("UTF-8")));
            answers.flush();
        }
        System.exit(0);
    }

    /** Some command objects hold a client that starts only once: each run gets a new set. */
    private static void runCommand(String[] words) {
        FreshCommands.forget();
        MQAdminStartup.main0(words, null);
    }

    private static final class FreshCommands extends MQAdminStartup {
        static void forget() {
            SUB_COMMANDS.clear();
        }

        static void printNames() {
            forget();
            initCommand();
            SUB_COMMANDS.forEach(command -> System.out.print(command.commandName() + " "));
        }
    }

    /** Some commands never end: interrupt them after they have printed the text. */
    private static void runUntil(ByteArrayOutputStream printed, String text, String[] words) throws Exception {
        Thread endless = new Thread(() -> runCommand(words));
        endless.start();
        while (endless.isAlive() && !printed.toString("UTF-8").contains(text)) {
            Thread.sleep(20);
        }
        endless.interrupt();
        endless.join();
    }

    /** A client's shutdown waits up to 3 s for a thread that polls an empty queue; waking it has no other effect. */
    private static void hurryShutdowns(Thread main) {
        Thread hurrier = new Thread(() -> {
            while (true) {
                if (Arrays.stream(main.getStackTrace()).anyMatch(frame -> frame.getMethodName().equals("join"))) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().startsWith("NettyEventExecutor")).forEach(Thread::interrupt);
                }
                try {
                    Thread.sleep(20);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        });
        hurrier.setDaemon(true);
        hurrier.start();
    }

    private static void act(String[] words) throws Exception {
        switch (words[0]) {
            case "!produce":
                producer = new DefaultMQProducer(words[1]);
                producer.setNamesrvAddr(namesrv);
                producer.setInstanceName("interop-producer");
                producer.setSendMsgTimeout(CALL_TIMEOUT_MS);
                producer.start();
                break;
            case "!send":
                Message message = new Message(words[1], words[2], words[3], words[4].getBytes(StandardCharsets.UTF_8));
                SendResult sent = producer.send(message);
                System.out.print(sent.getMsgId() + " " + sent.getOffsetMsgId() + " "
                    + sent.getMessageQueue().getQueueId() + " " + sent.getQueueOffset());
                break;
            case "!consume":
                consumer = new DefaultMQPushConsumer(words[1]);
                consumer.setNamesrvAddr(namesrv);
                consumer.setInstanceName("interop-consumer");
                consumer.setMqClientApiTimeout(CALL_TIMEOUT_MS);
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
                consumer.setPersistConsumerOffsetInterval(500);
                consumer.subscribe(words[2], "*");
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                    ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
                consumer.start();
                break;
            case "!persist":
                consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                break;
            case "!clientid":
                System.out.print(consumer.buildMQClientId());
                break;
            case "!names":
                FreshCommands.printNames();
                break;
            case "!stopconsumer":
                consumer.shutdown();
                break;
            default:
                throw new IllegalArgumentException(Arrays.toString(words));
        }
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
