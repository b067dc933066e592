package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send, with the broker's answers. */
final class SendScenarios {
    static void addTo(Harness harness) {
        harness.add("sync_send", SendScenarios::syncSend);
        harness.add("async_send", SendScenarios::asyncSend);
        harness.add("oneway", SendScenarios::oneway);
        harness.add("batch", SendScenarios::batch);
        harness.add("selected_queue", SendScenarios::selectedQueue);
        harness.add("compressed", SendScenarios::compressed);
        harness.add("non_ascii", SendScenarios::nonAscii);
        harness.add("auto_create", SendScenarios::autoCreate);
        harness.add("too_large", SendScenarios::tooLarge);
    }

    static String syncSend(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        Map<Integer, List<Long>> offsets = new TreeMap<>();
        Set<String> ids = new HashSet<>();
        for (int i = 0; i < 8; i++) {
            SendResult result = producer.send(new Message(topic, "TagA", "key" + i, utf8("body " + i)));
            same(SendStatus.SEND_OK, result.getSendStatus(), "status");
            same(topic, result.getMessageQueue().getTopic(), "topic");
            check(result.getOffsetMsgId().length() == 32, "offset id " + result.getOffsetMsgId());
            check(ids.add(result.getMsgId()) && ids.add(result.getOffsetMsgId()), "an id came twice");
            offsets.computeIfAbsent(result.getMessageQueue().getQueueId(), q -> new ArrayList<>())
                .add(result.getQueueOffset());
            MessageExt stored = producer.viewMessage(topic, result.getOffsetMsgId());
            same("body " + i, text(stored.getBody()), "stored body");
            same("key" + i, stored.getKeys(), "stored keys");
            same(result.getMsgId(), stored.getProperty("UNIQ_KEY"), "stored unique key");
        }
        same(4, offsets.size(), "queues used by 8 round robin sends");
        for (List<Long> ofQueue : offsets.values()) {
            same(Arrays.asList(0L, 1L), ofQueue, "offsets of a queue");
        }
        producer.shutdown();
        return offsets.toString();
    }

    static String asyncSend(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        int count = 100;
        Set<String> positions = ConcurrentHashMap.newKeySet();
        List<Throwable> failures = new ArrayList<>();
        CountDownLatch answered = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            producer.send(new Message(topic, utf8("async " + i)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    positions.add(result.getMessageQueue().getQueueId() + ":" + result.getQueueOffset());
                    answered.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    synchronized (failures) {
                        failures.add(failure);
                    }
                    answered.countDown();
                }
            });
        }
        check(answered.await(Harness.WAIT_MS, TimeUnit.MILLISECONDS), answered.getCount() + " sends unanswered");
        check(failures.isEmpty(), "failures: " + failures);
        same(count, positions.size(), "different queue positions");
        producer.shutdown();
        return count + " answered";
    }

    static String oneway(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        for (int i = 0; i < 10; i++) {
            producer.sendOneway(new Message(topic, utf8("oneway " + i)));
        }
        await("10 stored one-way messages", () -> stored(producer, topic) == 10);
        producer.shutdown();
        return "10 stored";
    }

    static long stored(DefaultMQProducer producer, String topic) {
        try {
            long sum = 0;
            for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
                sum += producer.maxOffset(queue);
            }
            return sum;
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    static String batch(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            Message message = new Message(topic, "TagB", "batch" + i, utf8("batch body " + i));
            message.putUserProperty("index", String.valueOf(i));
            messages.add(message);
        }
        SendResult result = producer.send(messages);
        same(SendStatus.SEND_OK, result.getSendStatus(), "status");
        String[] ids = result.getOffsetMsgId().split(",");
        same(20, ids.length, "offset ids");
        same(20, result.getMsgId().split(",").length, "message ids");
        for (int i = 0; i < 20; i++) {
            MessageExt stored = producer.viewMessage(topic, ids[i]);
            same("batch body " + i, text(stored.getBody()), "body");
            same(String.valueOf(i), stored.getProperty("index"), "property");
            same(result.getQueueOffset() + i, stored.getQueueOffset(), "queue offset");
            same(result.getMessageQueue().getQueueId(), stored.getQueueId(), "queue");
        }
        producer.shutdown();
        return "20 in queue " + result.getMessageQueue().getQueueId() + " from " + result.getQueueOffset();
    }

    static String selectedQueue(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        for (int i = 0; i < 12; i++) {
            int wanted = i % 3;
            SendResult result = producer.send(new Message(topic, utf8("selected " + i)),
                (queues, message, key) -> queues.stream()
                    .filter(queue -> queue.getQueueId() == (Integer) key).findFirst().get(), wanted);
            same(wanted, result.getMessageQueue().getQueueId(), "queue");
            same((long) (i / 3), result.getQueueOffset(), "offset");
        }
        producer.shutdown();
        return "12 to 3 queues";
    }

    static String compressed(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        StringBuilder words = new StringBuilder();
        Random random = new Random(7);
        while (words.length() < 100_000) {
            words.append("word").append(random.nextInt(1000)).append(' ');
        }
        byte[] body = utf8(words.toString());
        List<String> used = new ArrayList<>();
        for (String kind : Arrays.asList("ZLIB", "LZ4", "ZSTD")) {
            if (!Harness.setEnum(producer, "setCompressType", kind) && !kind.equals("ZLIB")) {
                continue;
            }
            SendResult result = producer.send(new Message(topic, body));
            MessageExt stored = producer.viewMessage(topic, result.getOffsetMsgId());
            check(Arrays.equals(body, stored.getBody()), kind + ": the body came back changed");
            check(stored.getStoreSize() < body.length / 2, kind + ": stored uncompressed: " + stored.getStoreSize());
            used.add(kind + "=" + stored.getStoreSize());
        }
        producer.shutdown();
        return used.toString();
    }

    static String nonAscii(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        Message message = new Message(topic, "标签", "ключ-ü", utf8("消息 🚀 тело"));
        message.putUserProperty("名前", "値 \u00e9 🎈");
        SendResult result = producer.send(message);
        MessageExt stored = producer.viewMessage(topic, result.getOffsetMsgId());
        same("消息 🚀 тело", text(stored.getBody()), "body");
        same("标签", stored.getTags(), "tags");
        same("ключ-ü", stored.getKeys(), "keys");
        same("値 \u00e9 🎈", stored.getProperty("名前"), "property");
        producer.shutdown();
        return "kept";
    }

    static String autoCreate(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        String fresh = topic + "-fresh";
        for (int i = 0; i < 4; i++) {
            same(SendStatus.SEND_OK, producer.send(new Message(fresh, utf8("auto " + i))).getSendStatus(), "status");
        }
        DefaultMQProducer second = harness.producer(topic + "-second");
        await("the route of " + fresh, () -> {
            try {
                return second.fetchPublishMessageQueues(fresh).size() == 4;
            } catch (Exception notYet) {
                return false;
            }
        });
        same(4L, stored(second, fresh), "stored messages");
        second.shutdown();
        producer.shutdown();
        return "4 queues";
    }

    static String tooLarge(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        producer.setMaxMessageSize(16 * 1024 * 1024);
        byte[] noise = new byte[5 * 1024 * 1024];
        new Random(3).nextBytes(noise);
        try {
            producer.send(new Message(topic, noise));
        } catch (MQBrokerException refused) {
            same(13, refused.getResponseCode(), "response code");
            same(SendStatus.SEND_OK, producer.send(new Message(topic, utf8("small"))).getSendStatus(), "next send");
            producer.shutdown();
            return "refused with 13, the connection goes on";
        }
        throw new AssertionError("5 MiB were accepted");
    }
}
