package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Timer messages: none comes early, and a recalled one does not come. The client 4.9.8 knows them as properties only. */
final class TimerScenarios {
    private static final long DELAY_MS = 4000;

    static void addTo(Harness harness) {
        harness.add("timer", TimerScenarios::timer);
    }

    static String timer(Harness harness, String topic) throws Exception {
        Map<String, MessageExt> found = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            batch.forEach(message -> found.put(text(message.getBody()), message));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = harness.producer(topic);
        long dueMs = System.currentTimeMillis() + DELAY_MS;
        // What is recalled is due before what is waited for.
        Message recalled = with(new Message(topic, utf8("recalled")), "setDeliverTimeMs", "TIMER_DELIVER_MS", dueMs - 1000);
        SendResult gone = producer.send(recalled);
        producer.send(with(new Message(topic, utf8("at")), "setDeliverTimeMs", "TIMER_DELIVER_MS", dueMs));
        producer.send(with(new Message(topic, utf8("in ms")), "setDelayTimeMs", "TIMER_DELAY_MS", DELAY_MS));
        producer.send(with(new Message(topic, utf8("in s")), "setDelayTimeSec", "TIMER_DELAY_SEC", DELAY_MS / 1000));
        Method recall = method(producer, "recallMessage");
        if (recall != null) {
            String handle = (String) method(gone, "getRecallHandle").invoke(gone);
            same(gone.getMsgId(), recall.invoke(producer, topic, handle), "the recall's answer");
        }
        await("the timers", () -> found.size() >= (recall == null ? 4 : 3));
        for (MessageExt message : found.values()) {
            if (!text(message.getBody()).equals("recalled")) {
                check(message.getStoreTimestamp() >= dueMs, text(message.getBody()) + " came early: "
                    + (dueMs - message.getStoreTimestamp()) + " ms");
            }
        }
        same(recall == null, found.containsKey("recalled"), "whether the recalled one came");
        if (recall != null) {
            recallOfTheDelivered(producer, recall, topic, (String) method(gone, "getRecallHandle").invoke(gone));
        }
        consumer.shutdown();
        producer.shutdown();
        return recall == null ? "without a recall" : "with a recall";
    }

    private static void recallOfTheDelivered(DefaultMQProducer producer, Method recall, String topic, String handle)
        throws Exception {
        try {
            recall.invoke(producer, topic, handle);
        } catch (InvocationTargetException refused) {
            check(String.valueOf(refused.getCause()).contains("timestamp invalid"), "refused: " + refused.getCause());
            return;
        }
        throw new AssertionError("a recall of the past was taken");
    }

    private static Message with(Message message, String setter, String property, long value) throws Exception {
        Method method = method(message, setter);
        if (method != null) {
            method.invoke(message, value);
        } else {
            MessageAccessor.putProperty(message, property, String.valueOf(value));
        }
        return message;
    }

    private static Method method(Object target, String name) {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                return method;
            }
        }
        return null;
    }
}
