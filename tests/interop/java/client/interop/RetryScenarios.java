package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Later deliveries: retries, dead letters, delayed messages, and request-reply. */
final class RetryScenarios {
    static void addTo(Harness harness) {
        harness.add("retry", RetryScenarios::retry);
        harness.add("dead_letter", RetryScenarios::deadLetter);
        harness.add("delay_level", RetryScenarios::delayLevel);
        harness.add("request_reply", RetryScenarios::requestReply);
    }

    private static List<MessageExt> messages() {
        return Collections.synchronizedList(new ArrayList<>());
    }

    static String retry(Harness harness, String topic) throws Exception {
        List<MessageExt> seen = messages();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "TagR");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            seen.addAll(batch);
            context.setDelayLevelWhenNextConsume(1);
            return batch.get(0).getReconsumeTimes() < 2
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = harness.producer(topic);
        Message message = new Message(topic, "TagR", "retry-key", utf8("try me"));
        message.putUserProperty("color", "red");
        SendResult sent = producer.send(message);
        await("the third delivery", () -> seen.size() >= 3);
        for (int times = 0; times < 3; times++) {
            MessageExt delivered = seen.get(times);
            same(times, delivered.getReconsumeTimes(), "reconsumeTimes");
            same(topic, delivered.getTopic(), "topic");
            same("try me", text(delivered.getBody()), "body");
            same("red", delivered.getProperty("color"), "property");
            same("TagR", delivered.getTags(), "tag");
            same(sent.getMsgId(), delivered.getMsgId(), "message id");
        }
        same(sent.getOffsetMsgId(), seen.get(2).getProperty("ORIGIN_MESSAGE_ID"), "origin message id");
        producer.shutdown();
        consumer.shutdown();
        return "delivered 3 times";
    }

    static String deadLetter(Harness harness, String topic) throws Exception {
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        List<MessageExt> tries = messages();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            tries.addAll(batch);
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        DefaultMQProducer producer = harness.producer(topic);
        producer.send(new Message(topic, utf8("poison")));
        await("two tries", () -> tries.size() >= 2);
        // A consumer of a topic without a route asks for it only every 30 s: wait for the route first.
        await("the dead letter topic", () -> {
            try {
                return SendScenarios.stored(producer, "%DLQ%" + topic) > 0;
            } catch (IllegalStateException noRouteYet) {
                return false;
            }
        });
        List<MessageExt> dead = messages();
        DefaultMQPushConsumer undertaker = harness.consumer(topic + "-undertaker");
        undertaker.subscribe("%DLQ%" + topic, "*");
        undertaker.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            dead.addAll(batch);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        undertaker.start();
        await("the dead letter", () -> dead.size() >= 1);
        same("poison", text(dead.get(0).getBody()), "body of the dead letter");
        same(topic, dead.get(0).getProperty("RETRY_TOPIC"), "its first topic");
        same(2, tries.size(), "tries");
        producer.shutdown();
        consumer.shutdown();
        undertaker.shutdown();
        return "dead after 2 tries";
    }

    static String delayLevel(Harness harness, String topic) throws Exception {
        List<MessageExt> seen = messages();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "TagD");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            seen.addAll(batch);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = harness.producer(topic);
        // A consumer whose first heartbeat and first rebalance coincide is refused as outdated and pulls again 3 seconds
        // later: the order is meaningful only after every queue is being pulled.
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (MessageQueue queue : queues) {
            producer.send(new Message(topic, "TagD", "warm-up", utf8("warm-up")), queue);
        }
        await("the queues' first messages", () -> seen.size() >= queues.size());
        seen.clear();
        for (int level : Arrays.asList(2, 1)) {
            Message message = new Message(topic, "TagD", "delay-key", utf8("level " + level));
            message.setDelayTimeLevel(level);
            producer.send(message);
        }
        await("two delayed messages", () -> seen.size() >= 2);
        same("level 1", text(seen.get(0).getBody()), "the first to come");
        same("level 2", text(seen.get(1).getBody()), "the second to come");
        // Level 1 is one second: an earlier delivery is wrong, a later one only slow.
        long waited = seen.get(0).getStoreTimestamp() - seen.get(0).getBornTimestamp();
        check(waited >= 900, "a level 1 message came after " + waited + " ms");
        same(topic, seen.get(0).getTopic(), "topic");
        same("delay-key", seen.get(0).getKeys(), "keys");
        producer.shutdown();
        consumer.shutdown();
        return "in order of their levels";
    }

    static String requestReply(Harness harness, String topic) throws Exception {
        DefaultMQProducer replier = harness.producer(topic + "-replier");
        DefaultMQPushConsumer server = harness.consumer(topic);
        List<String> problems = ConsumeScenarios.list();
        server.subscribe(topic, "*");
        server.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt request : batch) {
                try {
                    replier.send(MessageUtil.createReplyMessage(request, utf8("re: " + text(request.getBody()))));
                } catch (Exception failure) {
                    problems.add(failure instanceof MQBrokerException
                        ? "code " + ((MQBrokerException) failure).getResponseCode() : failure.toString());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        server.start();
        Harness.awaitShares(topic, 4, server);
        DefaultMQProducer producer = harness.producer(topic);
        // In 5.3.3 only this overload of four waits for the answer: the others return after the send.
        CompletableFuture<Message> answer = new CompletableFuture<>();
        producer.request(new Message(topic, utf8("how are you")), (queues, message, key) -> queues.get(0), null,
            new RequestCallback() {
                @Override
                public void onSuccess(Message message) {
                    answer.complete(message);
                }

                @Override
                public void onException(Throwable failure) {
                    answer.completeExceptionally(failure);
                }
            }, 2 * Harness.CALL_TIMEOUT_MS);
        await("an answer or a refusal", () -> answer.isDone() || !problems.isEmpty());
        check(problems.isEmpty(), "replying failed: " + problems);
        same("re: how are you", text(answer.get().getBody()), "answer");
        producer.shutdown();
        replier.shutdown();
        server.shutdown();
        return "answered";
    }
}
