package interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The client of the remoting protocol, for messages that cross from one protocol to the other. */
final class Classic {
    private static final int CALL_TIMEOUT_MS = 30_000;

    private final Grpc driver;
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();

    Classic(Grpc driver) {
        this.driver = driver;
    }

    Object run(JSONObject request) throws Exception {
        String name = request.getString("name");
        switch (request.getString("op")) {
            case "classic_producer":
                DefaultMQProducer producer = new DefaultMQProducer(name);
                producer.setNamesrvAddr(request.getString("namesrv"));
                producer.setInstanceName(name);
                producer.setSendMsgTimeout(CALL_TIMEOUT_MS);
                producer.start();
                producers.put(name, producer);
                return Grpc.NOTHING;
            case "classic_send":
                Message message = new Message(request.getString("topic"), request.getString("tag"),
                    String.join(" ", request.getList("keys", String.class)),
                    Base64.getDecoder().decode(request.getString("body")));
                request.getJSONObject("properties")
                    .forEach((key, value) -> message.putUserProperty(key, (String) value));
                return producers.get(name).send(message).getMsgId();
            case "classic_push":
                return push(name, request);
            case "classic_close":
                if (producers.containsKey(name)) {
                    producers.remove(name).shutdown();
                } else {
                    consumers.remove(name).shutdown();
                }
                return Grpc.NOTHING;
            default:
                throw new IllegalArgumentException("no such op: " + request);
        }
    }

    private Object push(String name, JSONObject request) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.getString("group"));
        consumer.setNamesrvAddr(request.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(CALL_TIMEOUT_MS);
        consumer.subscribe(request.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            batch.forEach(message -> driver.delivered(name, fields(message)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        consumers.put(name, consumer);
        return Grpc.NOTHING;
    }

    private static JSONObject fields(MessageExt message) {
        JSONObject fields = new JSONObject();
        fields.put("id", message.getMsgId());
        fields.put("topic", message.getTopic());
        fields.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        fields.put("tag", message.getTags());
        fields.put("keys", message.getKeys() == null ? List.of() : List.of(message.getKeys().split(" ")));
        fields.put("properties", new TreeMap<>(message.getProperties()));
        fields.put("born_ms", message.getBornTimestamp());
        return fields;
    }
}
