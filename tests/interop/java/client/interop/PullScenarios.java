package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulling consumers: the pull consumer with every status, long polling, and the lite pull consumer. */
@SuppressWarnings("deprecation")
final class PullScenarios {
    private static final long SEEK_AGAIN_AFTER_MS = 5_000;

    static void addTo(Harness harness) {
        harness.add("pull_statuses", PullScenarios::pullStatuses);
        harness.add("long_poll", PullScenarios::longPoll);
        harness.add("lite_pull_subscribe", PullScenarios::litePullSubscribe);
        harness.add("lite_pull_assign", PullScenarios::litePullAssign);
        harness.add("inner_batch", PullScenarios::innerBatch);
    }

    private static DefaultMQPullConsumer pullConsumer(Harness harness, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(harness.namesrv);
        consumer.setInstanceName(group + "-pull-" + System.nanoTime());
        consumer.setMqClientApiTimeout(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumerPullTimeoutMillis(Harness.CALL_TIMEOUT_MS);
        consumer.start();
        return consumer;
    }

    private static MessageQueue queue(DefaultMQPullConsumer consumer, String topic, int id) throws Exception {
        return consumer.fetchSubscribeMessageQueues(topic).stream().filter(q -> q.getQueueId() == id).findFirst().get();
    }

    private static void sendTo(DefaultMQProducer producer, String topic, int queueId, String... bodies) throws Exception {
        for (String body : bodies) {
            producer.send(new Message(topic, "Tag" + body.charAt(0), utf8(body)),
                (queues, message, key) -> queues.stream().filter(q -> q.getQueueId() == (Integer) key).findFirst().get(),
                queueId);
        }
    }

    /** The topic has queue.type=BatchCQ: the batch is one record, which the client unwraps. */
    static String innerBatch(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        DefaultMQPullConsumer consumer = pullConsumer(harness, topic);
        MessageQueue queue = queue(consumer, topic, 1);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            batch.add(new Message(topic, "A", "inner" + i, utf8("inner " + i)));
        }
        same(0L, producer.send(batch, queue).getQueueOffset(), "offset of the batch");
        same(5L, producer.send(new Message(topic, "A", utf8("inner 5")), queue).getQueueOffset(), "offset behind it");
        PullResult all = consumer.pull(queue, "*", 0, 32);
        same(6L, all.getNextBeginOffset(), "next offset");
        same(6L, all.getMaxOffset(), "max offset");
        List<MessageExt> found = all.getMsgFoundList();
        same(6, found.size(), "messages");
        for (int i = 0; i < 6; i++) {
            same((long) i, found.get(i).getQueueOffset(), "queue offset");
            same("inner " + i, text(found.get(i).getBody()), "body");
        }
        same("inner3", found.get(3).getKeys(), "keys");
        consumer.shutdown();
        producer.shutdown();
        return found.size() + " messages of 2 records";
    }

    static String pullStatuses(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        sendTo(producer, topic, 1, "A0", "A1", "B2", "B3", "A4");
        DefaultMQPullConsumer consumer = pullConsumer(harness, topic);
        MessageQueue queue = queue(consumer, topic, 1);
        PullResult all = consumer.pull(queue, "*", 0, 32);
        same(PullStatus.FOUND, all.getPullStatus(), "status");
        same(5, all.getMsgFoundList().size(), "messages");
        same(5L, all.getNextBeginOffset(), "next offset");
        same(0L, all.getMinOffset(), "min offset");
        same(5L, all.getMaxOffset(), "max offset");
        for (int i = 0; i < 5; i++) {
            MessageExt message = all.getMsgFoundList().get(i);
            same((long) i, message.getQueueOffset(), "queue offset");
            same(1, message.getQueueId(), "queue id");
            same(queue.getBrokerName(), message.getBrokerName(), "broker name");
            same("5", message.getProperty("MAX_OFFSET"), "MAX_OFFSET");
        }
        same(2, consumer.pull(queue, "*", 1, 2).getMsgFoundList().size(), "messages when asked for 2");
        PullResult onlyB = consumer.pull(queue, "TagB", 0, 32);
        same(2, onlyB.getMsgFoundList().size(), "messages with TagB");
        PullResult none = consumer.pull(queue, "TagZ", 0, 32);
        same(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status without a match");
        same(5L, none.getNextBeginOffset(), "next offset without a match");
        same(PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", 5, 32).getPullStatus(), "status at the end");
        PullResult beyond = consumer.pull(queue, "*", 99, 32);
        same(PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus(), "status beyond the end");
        same(5L, beyond.getNextBeginOffset(), "next offset beyond the end");
        // A new group on a young topic starts at 0 as long as the first message is there, not at the end.
        same(0L, consumer.fetchConsumeOffset(queue, true), "offset of a group that has none");
        consumer.updateConsumeOffset(queue, 3);
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        await("the stored offset", () -> {
            try {
                return consumer.fetchConsumeOffset(queue, true) == 3;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        consumer.shutdown();
        producer.shutdown();
        return "all statuses";
    }

    static String longPoll(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        DefaultMQPullConsumer consumer = pullConsumer(harness, topic);
        MessageQueue queue = queue(consumer, topic, 2);
        ExecutorService waiter = Executors.newSingleThreadExecutor();
        for (int round = 0; round < 3; round++) {
            long offset = round;
            Future<PullResult> parked = waiter.submit(() -> consumer.pullBlockIfNotFound(queue, "*", offset, 32));
            // Gives the request a chance to be parked; the outcome is the same either way.
            Thread.sleep(150);
            sendTo(producer, topic, 2, "L" + round);
            PullResult result = parked.get();
            same(PullStatus.FOUND, result.getPullStatus(), "status");
            same("L" + round, text(result.getMsgFoundList().get(0).getBody()), "body");
        }
        waiter.shutdown();
        consumer.shutdown();
        producer.shutdown();
        return "3 parked pulls answered";
    }

    private static DefaultLitePullConsumer liteConsumer(Harness harness, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(harness.namesrv);
        consumer.setInstanceName(group + "-lite-" + System.nanoTime());
        consumer.setMqClientApiTimeout(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumerPullTimeoutMillis(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setPollTimeoutMillis(500);
        return consumer;
    }

    private static List<String> poll(DefaultLitePullConsumer consumer, int count) {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        long deadline = System.currentTimeMillis() + Harness.WAIT_MS;
        while (seen.size() < count) {
            check(System.currentTimeMillis() < deadline, "polled " + seen.size() + " of " + count);
            for (MessageExt message : consumer.poll()) {
                seen.add(text(message.getBody()));
            }
        }
        return seen;
    }

    static String litePullSubscribe(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        ConsumeScenarios.send(producer, topic, 0, 20);
        DefaultLitePullConsumer consumer = liteConsumer(harness, topic);
        consumer.subscribe(topic, "*");
        consumer.start();
        ConsumeScenarios.exactly(poll(consumer, 20), 0, 20, "polled");
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.commit(new HashSet<>(queues), true);
        for (MessageQueue queue : queues) {
            // A commit is one-way: a later answered call proves that it left before the connection closes.
            consumer.offsetForTimestamp(queue, 0L);
        }
        consumer.shutdown();
        ConsumeScenarios.send(producer, topic, 20, 25);
        DefaultLitePullConsumer again = liteConsumer(harness, topic);
        again.subscribe(topic, "*");
        again.start();
        ConsumeScenarios.exactly(poll(again, 5), 20, 25, "polled after a restart");
        again.shutdown();
        producer.shutdown();
        return "20 then 5";
    }

    static String litePullAssign(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        sendTo(producer, topic, 3, "s0", "s1", "s2", "s3", "s4", "s5");
        DefaultLitePullConsumer consumer = liteConsumer(harness, topic);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        same(4, queues.size(), "queues");
        MessageQueue queue = queues.stream().filter(q -> q.getQueueId() == 3).findFirst().get();
        consumer.assign(Collections.singletonList(queue));
        same("s0", poll(consumer, 6).get(0), "first of an assigned queue");
        seekUntil(consumer, queue, 2, List.of("s2", "s3", "s4", "s5"));
        seekUntil(consumer, queue, 0, List.of("s0", "s1", "s2", "s3", "s4", "s5"));
        consumer.shutdown();
        producer.shutdown();
        return "seek works";
    }

    /** Repeats a seek without effect: both client versions lose a seek during a running pull. */
    private static void seekUntil(DefaultLitePullConsumer consumer, MessageQueue queue, long offset, List<String> wanted)
        throws Exception {
        List<String> last = new ArrayList<>();
        long giveUp = System.currentTimeMillis() + Harness.WAIT_MS;
        while (!wanted.equals(last) && System.currentTimeMillis() < giveUp) {
            consumer.seek(queue, offset);
            last.clear();
            long deadline = System.currentTimeMillis() + SEEK_AGAIN_AFTER_MS;
            while (last.size() < wanted.size() && System.currentTimeMillis() < deadline) {
                for (MessageExt message : consumer.poll()) {
                    last.add(text(message.getBody()));
                }
            }
        }
        same(wanted, last, "polled after a seek to " + offset);
    }
}
