package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Message traces: what the client writes to RocketMQ's trace topic is found there by the message's id. */
final class TraceScenarios {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    static void addTo(Harness harness) {
        harness.add("trace", TraceScenarios::trace);
    }

    static String trace(Harness harness, String topic) throws Exception {
        CountDownLatch consumed = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic, true, null);
        consumer.setNamesrvAddr(harness.namesrv);
        consumer.setInstanceName(topic + "-consumer-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            consumed.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-producer", true, null);
        producer.setNamesrvAddr(harness.namesrv);
        producer.setInstanceName(topic + "-producer-" + System.nanoTime());
        producer.setSendMsgTimeout(Harness.CALL_TIMEOUT_MS);
        producer.start();
        SendResult sent = producer.send(new Message(topic, "TagA", "trace-key", utf8("follow me")));
        consumed.await();
        await("its traces", () -> {
            String bodies = traces(producer, sent.getMsgId());
            return bodies.contains("Pub\u0001") && bodies.contains("SubAfter\u0001");
        });
        check(traces(producer, sent.getMsgId()).contains("trace-key"), "the key is missing");
        producer.shutdown();
        consumer.shutdown();
        return sent.getMsgId();
    }

    private static String traces(DefaultMQProducer producer, String id) {
        try {
            StringBuilder bodies = new StringBuilder();
            List<MessageExt> found = producer.queryMessage(TRACE_TOPIC, id, 32, 0, Long.MAX_VALUE).getMessageList();
            for (MessageExt message : found) {
                bodies.append(text(message.getBody()));
            }
            return bodies.toString();
        } catch (Exception none) {
            return "";
        }
    }
}
