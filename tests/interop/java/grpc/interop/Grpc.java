package interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Does what each line of standard input asks, side by side, and prints a line for each answer. */
public final class Grpc {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(10);
    private static final Duration AWAIT = Duration.ofSeconds(5);
    static final Object NOTHING = new JSONObject();

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Classic classic = new Classic(this);
    private final PrintStream out;
    private final Map<String, Closeable> clients = new ConcurrentHashMap<>();
    private final Map<String, Transaction> transactions = new ConcurrentHashMap<>();
    private final Map<String, MessageView> received = new ConcurrentHashMap<>();
    private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();

    private Grpc(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Grpc driver = new Grpc(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var pool = Executors.newCachedThreadPool();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject request = JSON.parseObject(line);
            pool.execute(() -> driver.answer(request));
        }
        System.exit(0);
    }

    private void answer(JSONObject request) {
        JSONObject line = new JSONObject();
        line.put("call", request.get("call"));
        try {
            line.put("result", run(request));
        } catch (Throwable failure) {
            String causes = Stream.iterate(failure, Objects::nonNull, Throwable::getCause)
                .map(String::valueOf).collect(Collectors.joining(" because of "));
            line.put("error", causes);
        }
        print(line);
    }

    void print(JSONObject line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    /** Tells of a message that came to a push consumer. */
    void delivered(String consumer, JSONObject message) {
        JSONObject line = new JSONObject();
        line.put("consumer", consumer);
        line.put("message", message);
        print(line);
    }

    private Object run(JSONObject request) throws Exception {
        String name = request.getString("name");
        switch (request.getString("op")) {
            case "producer":
                clients.put(name, provider.newProducerBuilder().setClientConfiguration(configuration(request))
                    .setTopics(request.getString("topic")).setTransactionChecker(this::check).build());
                return NOTHING;
            case "send":
                return send((Producer) clients.get(name), request);
            case "end":
                Transaction transaction = transactions.remove(request.getString("id"));
                if (request.getBooleanValue("commit")) {
                    transaction.commit();
                } else {
                    transaction.rollback();
                }
                return NOTHING;
            case "recall":
                return String.valueOf(((Producer) clients.get(name))
                    .recallMessage(request.getString("topic"), request.getString("handle")).getMessageId());
            case "simple":
                clients.put(name, provider.newSimpleConsumerBuilder().setClientConfiguration(configuration(request))
                    .setConsumerGroup(request.getString("group")).setAwaitDuration(AWAIT)
                    .setSubscriptionExpressions(subscription(request)).build());
                return NOTHING;
            case "receive":
                return receive((SimpleConsumer) clients.get(name), request);
            case "ack":
                ((SimpleConsumer) clients.get(name)).ack(received.get(request.getString("id")));
                return NOTHING;
            case "change":
                ((SimpleConsumer) clients.get(name)).changeInvisibleDuration(
                    received.get(request.getString("id")), Duration.ofSeconds(request.getLongValue("seconds")));
                return NOTHING;
            case "push":
                clients.put(name, provider.newPushConsumerBuilder().setClientConfiguration(configuration(request))
                    .setConsumerGroup(request.getString("group")).setSubscriptionExpressions(subscription(request))
                    .setMessageListener(message -> consume(name, message)).build());
                return NOTHING;
            case "lite":
                clients.put(name, provider.newLitePushConsumerBuilder().setClientConfiguration(configuration(request))
                    .setConsumerGroup(request.getString("group")).bindTopic(request.getString("topic"))
                    .setMessageListener(message -> consume(name, message)).build());
                return NOTHING;
            case "lite_subscribe":
                ((LitePushConsumer) clients.get(name)).subscribeLite(request.getString("lite"));
                return NOTHING;
            case "lite_unsubscribe":
                ((LitePushConsumer) clients.get(name)).unsubscribeLite(request.getString("lite"));
                return NOTHING;
            case "lite_topics":
                return ((LitePushConsumer) clients.get(name)).getLiteTopicSet();
            case "close":
                clients.remove(name).close();
                return NOTHING;
            default:
                return classic.run(request);
        }
    }

    private static ClientConfiguration configuration(JSONObject request) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(request.getString("endpoint")).setRequestTimeout(CALL_TIMEOUT);
        if (request.containsKey("user")) {
            List<String> user = request.getList("user", String.class);
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(user.get(0), user.get(1)));
        }
        return builder.build();
    }

    private static Map<String, FilterExpression> subscription(JSONObject request) {
        FilterExpression filter = request.containsKey("sql")
            ? new FilterExpression(request.getString("sql"), FilterExpressionType.SQL92)
            : new FilterExpression(request.getString("tags"), FilterExpressionType.TAG);
        return Map.of(request.getString("topic"), filter);
    }

    private JSONObject send(Producer producer, JSONObject request) throws Exception {
        MessageBuilder builder = provider.newMessageBuilder().setTopic(request.getString("topic"))
            .setBody(Base64.getDecoder().decode(request.getString("body")));
        if (request.containsKey("tag")) {
            builder.setTag(request.getString("tag"));
        }
        if (request.containsKey("keys")) {
            builder.setKeys(request.getJSONArray("keys").toArray(new String[0]));
        }
        if (request.containsKey("message_group")) {
            builder.setMessageGroup(request.getString("message_group"));
        }
        if (request.containsKey("lite")) {
            builder.setLiteTopic(request.getString("lite"));
        }
        if (request.containsKey("delivery_ms")) {
            builder.setDeliveryTimestamp(request.getLongValue("delivery_ms"));
        }
        if (request.containsKey("properties")) {
            request.getJSONObject("properties").forEach((key, value) -> builder.addProperty(key, (String) value));
        }
        JSONObject result = new JSONObject();
        SendReceipt receipt;
        if (request.getBooleanValue("transaction")) {
            Transaction transaction = producer.beginTransaction();
            receipt = producer.send(builder.build(), transaction);
            transactions.put(String.valueOf(receipt.getMessageId()), transaction);
        } else {
            receipt = producer.send(builder.build());
            result.put("handle", receipt.getRecallHandle());
        }
        result.put("id", String.valueOf(receipt.getMessageId()));
        return result;
    }

    /** A body's last word says how its transaction ended. */
    private TransactionResolution check(MessageView message) {
        String body = new String(bytes(message.getBody()), StandardCharsets.UTF_8);
        if (body.endsWith("commit")) {
            return TransactionResolution.COMMIT;
        }
        return body.endsWith("rollback") ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
    }

    private List<JSONObject> receive(SimpleConsumer consumer, JSONObject request) throws Exception {
        List<JSONObject> messages = new ArrayList<>();
        for (MessageView message : consumer.receive(
            request.getIntValue("count"), Duration.ofSeconds(request.getLongValue("seconds")))) {
            received.put(String.valueOf(message.getMessageId()), message);
            messages.add(fields(message));
        }
        return messages;
    }

    /** A body "fail N …" fails at its first N deliveries; "slow N …" takes N seconds. */
    private ConsumeResult consume(String consumer, MessageView message) {
        int count = deliveries.merge(consumer + message.getMessageId(), 1, Integer::sum);
        delivered(consumer, fields(message));
        String[] words = new String(bytes(message.getBody()), StandardCharsets.UTF_8).split(" ");
        if (words[0].equals("slow")) {
            LockSupport.parkNanos(Duration.ofSeconds(Long.parseLong(words[1])).toNanos());
        }
        boolean fails = words[0].equals("fail") && count <= Integer.parseInt(words[1]);
        return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    }

    private static JSONObject fields(MessageView message) {
        JSONObject fields = new JSONObject();
        fields.put("id", String.valueOf(message.getMessageId()));
        fields.put("topic", message.getTopic());
        fields.put("body", Base64.getEncoder().encodeToString(bytes(message.getBody())));
        fields.put("tag", message.getTag().orElse(null));
        fields.put("keys", message.getKeys());
        fields.put("properties", message.getProperties());
        fields.put("message_group", message.getMessageGroup().orElse(null));
        fields.put("lite", message.getLiteTopic().orElse(null));
        fields.put("delivery_ms", message.getDeliveryTimestamp().orElse(null));
        fields.put("born_ms", message.getBornTimestamp());
        fields.put("attempt", message.getDeliveryAttempt());
        return fields;
    }

    private static byte[] bytes(ByteBuffer body) {
        byte[] copy = new byte[body.remaining()];
        body.duplicate().get(copy);
        return copy;
    }
}
