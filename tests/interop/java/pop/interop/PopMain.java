package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Pops with the Java client: NAMESRV PREFIX SCENARIO... prints one JSON line for each scenario. */
public final class PopMain {
    private static final long WAIT_MS = 120_000;
    private static final int CALL_MS = 30_000;

    private interface Scenario {
        String run(String namesrv, String topic) throws Exception;
    }

    public static void main(String[] args) {
        boolean ok = true;
        for (int i = 2; i < args.length; i++) {
            Scenario scenario = args[i].equals("pop_api") ? PopMain::api : PopMain::push;
            String detail;
            boolean passed = false;
            try {
                detail = scenario.run(args[0], args[1] + "-" + args[i]);
                passed = true;
            } catch (Throwable failure) {
                failure.printStackTrace();
                detail = String.valueOf(failure).replace('"', '\'').replace('\n', ' ').replace('\\', '/');
            }
            ok &= passed;
            System.out.println("{\"scenario\":\"" + args[i] + "\",\"ok\":" + passed + ",\"detail\":\"" + detail + "\"}");
        }
        System.out.flush();
        System.exit(ok ? 0 : 1);
    }

    /** Pop, acknowledge all but one, hide that one longer, and get it again with one more reconsume time. */
    private static String api(String namesrv, String topic) throws Exception {
        DefaultMQProducer producer = producer(namesrv, topic);
        String broker = send(producer, topic, 10).getMessageQueue().getBrokerName();
        MQClientInstance instance = producer.getDefaultMQProducerImpl().getMqClientFactory();
        String address = instance.findBrokerAddressInPublish(broker);
        MQClientAPIImpl client = instance.getMQClientAPIImpl();
        String group = topic + "-group";
        List<MessageExt> messages = new ArrayList<>();
        await(() -> {
            messages.addAll(pop(client, broker, address, group, topic, 10_000));
            return messages.size() >= 10;
        }, "ten messages");
        same(10, messages.size(), "messages");
        for (MessageExt message : messages.subList(1, 10)) {
            same("OK", String.valueOf(ack(client, address, group, message).getStatus()), "the acknowledgement");
        }
        MessageExt kept = messages.get(0);
        long hidden = System.currentTimeMillis();
        hide(client, broker, address, group, kept, 3000);
        List<MessageExt> again = new ArrayList<>();
        await(() -> {
            again.addAll(pop(client, broker, address, group, topic, 30_000));
            return !again.isEmpty();
        }, "the message again");
        check(System.currentTimeMillis() - hidden >= 2900, "it came too early");
        same(1, again.size(), "messages again");
        same(1, again.get(0).getReconsumeTimes(), "reconsume times");
        same(topic, again.get(0).getTopic(), "its topic");
        same(new String(kept.getBody(), StandardCharsets.UTF_8), new String(again.get(0).getBody(), StandardCharsets.UTF_8),
            "its body");
        ack(client, address, group, again.get(0));
        producer.shutdown();
        return "10 popped, 1 again";
    }

    /** A push consumer with broker-side assignment: it pops, and what it fails on comes again. */
    private static String push(String namesrv, String topic) throws Exception {
        DefaultMQProducer producer = producer(namesrv, topic);
        String broker = send(producer, topic, 1).getMessageQueue().getBrokerName();
        MQClientInstance instance = producer.getDefaultMQProducerImpl().getMqClientFactory();
        String address = instance.findBrokerAddressInPublish(broker);
        String group = topic + "-group";
        instance.getMQClientAPIImpl().setMessageRequestMode(address, topic, group, MessageRequestMode.POP, 0, CALL_MS);
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        Map<String, Integer> reconsumed = new ConcurrentHashMap<>();
        AtomicInteger popped = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group);
        consumer.setClientRebalance(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            if (message.getProperty(MessageConst.PROPERTY_POP_CK) != null) {
                popped.incrementAndGet();
            }
            reconsumed.put(body, message.getReconsumeTimes());
            int times = seen.computeIfAbsent(body, each -> new AtomicInteger()).incrementAndGet();
            boolean fails = body.equals("5") && times == 1;
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        send(producer, topic, 20);
        await(() -> seen.size() == 20 && reconsumed.getOrDefault("5", 0) > 0, "20 messages, one of them again");
        check(popped.get() >= 21, "not all messages were popped: " + popped);
        consumer.shutdown();
        producer.shutdown();
        return "20 popped, 1 again";
    }

    private static DefaultMQProducer producer(String namesrv, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(topic);
        producer.setSendMsgTimeout(CALL_MS);
        producer.start();
        return producer;
    }

    private static SendResult send(DefaultMQProducer producer, String topic, int count) throws Exception {
        SendResult result = null;
        for (int number = 0; number < count; number++) {
            result = producer.send(new Message(topic, "tag", String.valueOf(number).getBytes(StandardCharsets.UTF_8)));
        }
        return result;
    }

    private static List<MessageExt> pop(
        MQClientAPIImpl client, String broker, String address, String group, String topic, long invisibleMs)
        throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setMaxMsgNums(32);
        header.setInvisibleTime(invisibleMs);
        header.setPollTime(5000);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        CompletableFuture<PopResult> result = new CompletableFuture<>();
        client.popMessageAsync(broker, address, header, CALL_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult popResult) {
                result.complete(popResult);
            }

            @Override
            public void onException(Throwable error) {
                result.completeExceptionally(error);
            }
        });
        PopResult found = result.get(CALL_MS, TimeUnit.MILLISECONDS);
        return found.getPopStatus() == PopStatus.FOUND ? found.getMsgFoundList() : Collections.emptyList();
    }

    private static AckResult ack(MQClientAPIImpl client, String address, String group, MessageExt message)
        throws Exception {
        String receipt = message.getProperty(MessageConst.PROPERTY_POP_CK);
        String[] parts = ExtraInfoUtil.split(receipt);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, message.getTopic(), group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setConsumerGroup(group);
        header.setExtraInfo(receipt);
        Answer answer = new Answer();
        client.ackMessageAsync(address, CALL_MS, answer, header);
        return answer.result.get(CALL_MS, TimeUnit.MILLISECONDS);
    }

    private static void hide(
        MQClientAPIImpl client, String broker, String address, String group, MessageExt message, long invisibleMs)
        throws Exception {
        String receipt = message.getProperty(MessageConst.PROPERTY_POP_CK);
        String[] parts = ExtraInfoUtil.split(receipt);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, message.getTopic(), group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setConsumerGroup(group);
        header.setExtraInfo(receipt);
        header.setInvisibleTime(invisibleMs);
        Answer answer = new Answer();
        client.changeInvisibleTimeAsync(broker, address, header, CALL_MS, answer);
        AckResult result = answer.result.get(CALL_MS, TimeUnit.MILLISECONDS);
        same("OK", String.valueOf(result.getStatus()), "the new invisible time");
        check(result.getExtraInfo() != null && !result.getExtraInfo().equals(receipt), "there is no new receipt");
    }

    private static final class Answer implements AckCallback {
        final CompletableFuture<AckResult> result = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult ackResult) {
            result.complete(ackResult);
        }

        @Override
        public void onException(Throwable error) {
            result.completeExceptionally(error);
        }
    }

    private interface Test {
        boolean holds() throws Exception;
    }

    private static void await(Test test, String what) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!test.holds()) {
            check(System.currentTimeMillis() < end, "no " + what + " within " + WAIT_MS + " ms");
            Thread.sleep(20);
        }
    }

    private static void same(Object expected, Object actual, String what) {
        check(expected.equals(actual), what + ": expected " + expected + ", got " + actual);
    }

    private static void check(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }
}
