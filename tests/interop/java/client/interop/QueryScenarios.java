package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Look-ups by key, by unique key, by offset id and by time. */
final class QueryScenarios {
    static void addTo(Harness harness) {
        harness.add("query_by_key", QueryScenarios::queryByKey);
        harness.add("view_by_id", QueryScenarios::viewById);
        harness.add("search_offset", QueryScenarios::searchOffset);
    }

    static String queryByKey(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        for (int i = 0; i < 6; i++) {
            producer.send(new Message(topic, "T", "order-" + i % 2 + " customer-" + i, utf8("m" + i)));
        }
        same(3, awaitKey(producer, topic, "order-1", 3).size(), "messages of a shared key");
        List<MessageExt> one = awaitKey(producer, topic, "customer-4", 1);
        same("m4", text(one.get(0).getBody()), "body found by the second key");
        try {
            producer.queryMessage(topic, "no-such-key", 32, 0, System.currentTimeMillis());
            throw new AssertionError("an unknown key found something");
        } catch (MQClientException nothing) {
            check(nothing.getMessage() != null, "no message");
        }
        producer.shutdown();
        return "found by both keys";
    }

    /** The index is built behind the log, so a look-up may be too early. */
    private static List<MessageExt> awaitKey(DefaultMQProducer producer, String topic, String key, int count)
        throws Exception {
        List<MessageExt> found = new ArrayList<>();
        await(count + " messages with the key " + key, () -> {
            found.clear();
            try {
                QueryResult result = producer.queryMessage(topic, key, 32, 0, System.currentTimeMillis() + 60_000);
                found.addAll(result.getMessageList());
            } catch (MQClientException notYet) {
                return false;
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
            return found.size() >= count;
        });
        return found;
    }

    static String viewById(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        SendResult sent = producer.send(new Message(topic, "T", "k", utf8("look me up")));
        MessageExt byOffset = producer.viewMessage(topic, sent.getOffsetMsgId());
        same("look me up", text(byOffset.getBody()), "body by offset id");
        same(sent.getQueueOffset(), byOffset.getQueueOffset(), "queue offset");
        await("the message by unique key", () -> {
            try {
                MessageExt byKey = producer.viewMessage(topic, sent.getMsgId());
                return byKey != null && "look me up".equals(text(byKey.getBody()));
            } catch (MQClientException notYet) {
                return false;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        String nowhere = sent.getOffsetMsgId().substring(0, 16) + "00000FFFFFFFFFFF";
        try {
            MessageExt ghost = producer.viewMessage(topic, nowhere);
            check(ghost == null, "found a message at an offset far beyond the log: " + ghost);
        } catch (MQBrokerException | MQClientException refused) {
            check(refused.getMessage() != null, "no message");
        }
        producer.shutdown();
        return "by both ids";
    }

    static String searchOffset(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        long start = System.currentTimeMillis();
        for (int i = 0; i < 4; i++) {
            producer.send(new Message(topic, utf8("s" + i)), (queues, message, key) -> queues.get(0), null);
            Thread.sleep(5);
        }
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        same(4L, producer.maxOffset(queue), "max offset");
        same(0L, producer.minOffset(queue), "min offset");
        same(0L, producer.searchOffset(queue, start - 10_000), "offset before the first");
        same(4L, producer.searchOffset(queue, System.currentTimeMillis() + 60_000), "offset after the last");
        long earliest = producer.earliestMsgStoreTime(queue);
        check(Math.abs(earliest - start) < 60_000, "earliest store time " + earliest);
        MessageExt second = producer.viewMessage(topic,
            producer.send(new Message(topic, utf8("s4")), (queues, message, key) -> queues.get(0), null).getOffsetMsgId());
        same(4L, producer.searchOffset(queue, second.getStoreTimestamp()), "offset at a message's own time");
        producer.shutdown();
        return "by time";
    }
}
