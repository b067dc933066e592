package interop;

import static interop.Harness.await;
import static interop.Harness.awaitShares;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers: sharing, broadcasting, order, filters, and where a group starts and continues. */
final class ConsumeScenarios {
    static void addTo(Harness harness) {
        harness.add("clustering", ConsumeScenarios::clustering);
        harness.add("member_leaves", ConsumeScenarios::memberLeaves);
        harness.add("broadcasting", ConsumeScenarios::broadcasting);
        harness.add("orderly", ConsumeScenarios::orderly);
        harness.add("tag_filter", ConsumeScenarios::tagFilter);
        harness.add("tag_hash_collision", ConsumeScenarios::tagHashCollision);
        harness.add("offsets_survive", ConsumeScenarios::offsetsSurvive);
        harness.add("from_timestamp", ConsumeScenarios::fromTimestamp);
        harness.add("backlog_batches", ConsumeScenarios::backlogBatches);
    }

    static void send(DefaultMQProducer producer, String topic, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            producer.send(new Message(topic, "T", utf8(String.valueOf(i))));
        }
    }

    static MessageListenerConcurrently collect(List<String> seen) {
        return (messages, context) -> {
            for (MessageExt message : messages) {
                seen.add(text(message.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    static List<String> list() {
        return Collections.synchronizedList(new ArrayList<>());
    }

    static void exactly(List<String> seen, int from, int to, String what) {
        Set<String> wanted = new HashSet<>();
        for (int i = from; i < to; i++) {
            wanted.add(String.valueOf(i));
        }
        synchronized (seen) {
            same(wanted, new HashSet<>(seen), what);
            same(to - from, seen.size(), what + ", each once");
        }
    }

    static String clustering(Harness harness, String topic) throws Exception {
        List<String> first = list();
        List<String> second = list();
        DefaultMQPushConsumer a = harness.consumer(topic);
        a.subscribe(topic, "*");
        a.registerMessageListener(collect(first));
        a.start();
        awaitShares(topic, 4, a);
        DefaultMQPushConsumer b = harness.consumer(topic);
        b.subscribe(topic, "*");
        b.registerMessageListener(collect(second));
        b.start();
        awaitShares(topic, 2, a, b);
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0, 80);
        await("80 messages", () -> first.size() + second.size() >= 80);
        List<String> all = new ArrayList<>(first);
        all.addAll(second);
        exactly(all, 0, 80, "messages of both");
        check(first.size() == 40 && second.size() == 40, "shares " + first.size() + " and " + second.size());
        producer.shutdown();
        a.shutdown();
        b.shutdown();
        return "40 and 40";
    }

    static String memberLeaves(Harness harness, String topic) throws Exception {
        List<String> seen = list();
        DefaultMQPushConsumer stays = harness.consumer(topic);
        stays.subscribe(topic, "*");
        stays.registerMessageListener(collect(seen));
        stays.start();
        awaitShares(topic, 4, stays);
        DefaultMQPushConsumer leaves = harness.consumer(topic);
        leaves.subscribe(topic, "*");
        leaves.registerMessageListener(collect(seen));
        leaves.start();
        awaitShares(topic, 2, stays, leaves);
        leaves.shutdown();
        // The broker must notify the remaining member: otherwise this takes a rebalance period of 20 s.
        awaitShares(topic, 4, stays);
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0, 20);
        await("20 messages", () -> seen.size() >= 20);
        exactly(seen, 0, 20, "messages");
        producer.shutdown();
        stays.shutdown();
        return "4 queues taken over";
    }

    static String broadcasting(Harness harness, String topic) throws Exception {
        List<List<String>> seen = Arrays.asList(list(), list());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (List<String> mine : seen) {
            DefaultMQPushConsumer consumer = harness.consumer(topic);
            Harness.broadcast(consumer);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(collect(mine));
            consumer.start();
            consumers.add(consumer);
        }
        awaitShares(topic, 4, consumers.toArray(new DefaultMQPushConsumer[0]));
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0, 20);
        for (List<String> mine : seen) {
            await("20 messages at each", () -> mine.size() >= 20);
            exactly(mine, 0, 20, "messages of one of two");
        }
        producer.shutdown();
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        return "20 and 20";
    }

    static String orderly(Harness harness, String topic) throws Exception {
        Map<Integer, List<String>> byQueue = new ConcurrentHashMap<>();
        Map<Integer, AtomicInteger> inside = new ConcurrentHashMap<>();
        AtomicBoolean overlap = new AtomicBoolean();
        AtomicBoolean suspended = new AtomicBoolean();
        AtomicInteger total = new AtomicInteger();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = harness.consumer(topic);
            consumer.subscribe(topic, "*");
            consumer.setSuspendCurrentQueueTimeMillis(200);
            consumer.registerMessageListener((List<MessageExt> messages, 
                org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext context) -> {
                int queue = messages.get(0).getQueueId();
                AtomicInteger here = inside.computeIfAbsent(queue, q -> new AtomicInteger());
                if (here.incrementAndGet() > 1) {
                    overlap.set(true);
                }
                try {
                    if (text(messages.get(0).getBody()).equals("5") && suspended.compareAndSet(false, true)) {
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    for (MessageExt message : messages) {
                        byQueue.computeIfAbsent(queue, q -> list()).add(text(message.getBody()));
                        total.incrementAndGet();
                    }
                    return ConsumeOrderlyStatus.SUCCESS;
                } finally {
                    here.decrementAndGet();
                }
            });
            consumer.start();
            consumers.add(consumer);
            awaitShares(topic, 4 / consumers.size(), consumers.toArray(new DefaultMQPushConsumer[0]));
        }
        DefaultMQProducer producer = harness.producer(topic);
        for (int i = 0; i < 60; i++) {
            producer.send(new Message(topic, utf8(String.valueOf(i))),
                (queues, message, key) -> queues.get((Integer) key % queues.size()), i);
        }
        await("60 messages in order", () -> total.get() >= 60);
        same(60, total.get(), "messages");
        same(4, byQueue.size(), "queues");
        for (List<String> ofQueue : byQueue.values()) {
            int previous = Integer.parseInt(ofQueue.get(0)) - 4;
            for (String body : ofQueue) {
                same(previous + 4, Integer.parseInt(body), "next of a queue");
                previous = Integer.parseInt(body);
            }
        }
        check(!overlap.get(), "two threads were in one queue");
        check(suspended.get(), "the suspended message never came");
        producer.shutdown();
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        return "60 in order in 4 queues";
    }

    static String tagFilter(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        for (int i = 0; i < 30; i++) {
            producer.send(new Message(topic, "Tag" + "ABC".charAt(i % 3), utf8(String.valueOf(i))));
        }
        producer.send(new Message(topic, utf8("untagged")));
        List<String> seen = list();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "TagA || TagB");
        consumer.registerMessageListener(collect(seen));
        consumer.start();
        await("20 matching messages", () -> seen.size() >= 20);
        producer.send(new Message(topic, "TagC", utf8("other")));
        producer.send(new Message(topic, "TagB", utf8("last")));
        await("the last matching message", () -> seen.contains("last"));
        check(!seen.contains("other") && !seen.contains("untagged"), "a message that does not match came");
        same(21, seen.size(), "matching messages");
        producer.shutdown();
        consumer.shutdown();
        return "21 of 33";
    }

    static String tagHashCollision(Harness harness, String topic) throws Exception {
        // "Aa" and "BB" have the same Java hash: the queue entries alone cannot distinguish them.
        DefaultMQProducer producer = harness.producer(topic);
        List<String> seen = list();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "Aa");
        consumer.registerMessageListener(collect(seen));
        consumer.start();
        producer.send(new Message(topic, "BB", utf8("wrong")), (queues, message, key) -> queues.get(0), null);
        producer.send(new Message(topic, "Aa", utf8("right")), (queues, message, key) -> queues.get(0), null);
        await("the matching message", () -> seen.contains("right"));
        same(1, seen.size(), "messages");
        producer.shutdown();
        consumer.shutdown();
        return "distinguished";
    }

    static String offsetsSurvive(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0, 20);
        List<String> before = list();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(collect(before));
        consumer.start();
        await("20 messages", () -> before.size() >= 20);
        consumer.shutdown();
        send(producer, topic, 20, 30);
        List<String> after = list();
        DefaultMQPushConsumer again = harness.consumer(topic);
        again.subscribe(topic, "*");
        again.registerMessageListener(collect(after));
        again.start();
        await("10 more messages", () -> after.size() >= 10);
        exactly(before, 0, 20, "before the restart");
        exactly(after, 20, 30, "after the restart");
        again.shutdown();
        producer.shutdown();
        return "20 then 10";
    }

    static String fromTimestamp(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0, 8);
        List<String> seen = list();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis() - 3_600_000));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(collect(seen));
        consumer.start();
        await("8 messages of the last hour", () -> seen.size() >= 8);
        exactly(seen, 0, 8, "messages");
        consumer.shutdown();
        producer.shutdown();
        return "8";
    }

    static String backlogBatches(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        int count = 1_000;
        for (int i = 0; i < count; i += 50) {
            List<Message> batch = new ArrayList<>();
            for (int k = i; k < i + 50; k++) {
                batch.add(new Message(topic, utf8(String.valueOf(k))));
            }
            producer.send(batch);
        }
        List<String> seen = list();
        AtomicInteger largest = new AtomicInteger();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.setConsumeMessageBatchMaxSize(16);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            largest.accumulateAndGet(messages.size(), Math::max);
            return collect(seen).consumeMessage(messages, context);
        });
        consumer.start();
        await(count + " messages", () -> seen.size() >= count);
        exactly(seen, 0, count, "messages");
        check(largest.get() > 1, "a backlog came in batches of one");
        consumer.shutdown();
        producer.shutdown();
        return count + ", up to " + largest + " at once";
    }
}
