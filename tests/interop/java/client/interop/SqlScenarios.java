package interop;

import static interop.ConsumeScenarios.collect;
import static interop.ConsumeScenarios.list;
import static interop.Harness.await;
import static interop.Harness.awaitShares;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** SQL92 with every consumer of the client. Of the messages n0 to n9 the expression matches n2, n4, n5, n6 and n8. */
final class SqlScenarios {
    private static final String EXPRESSION =
        "size BETWEEN 2 AND 8 AND color <> 'blue' AND TAGS IN ('even', 'five') AND missing IS NULL";
    private static final List<String> WANTED = Arrays.asList("n2", "n4", "n5", "n6", "n8");

    static void addTo(Harness harness) {
        harness.add("sql_push", SqlScenarios::push);
        harness.add("sql_lite_pull", SqlScenarios::litePull);
        harness.add("sql_pull", SqlScenarios::pull);
        harness.add("sql_wrong", SqlScenarios::wrong);
    }

    private static void send(DefaultMQProducer producer, String topic) throws Exception {
        for (int i = 0; i < 10; i++) {
            String tag = i == 5 ? "five" : i % 2 == 0 ? "even" : "odd";
            Message message = new Message(topic, tag, utf8("n" + i));
            message.putUserProperty("size", String.valueOf(i));
            message.putUserProperty("color", i == 3 ? "blue" : "red");
            producer.send(message);
        }
    }

    private static void exactly(List<String> seen, int times) {
        synchronized (seen) {
            same(new HashSet<>(WANTED), new HashSet<>(seen), "messages");
            same(times * WANTED.size(), seen.size(), "their number");
        }
    }

    /** First a backlog, then messages that arrive during long polling. */
    static String push(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic);
        List<String> seen = list();
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, MessageSelector.bySql(EXPRESSION));
        consumer.registerMessageListener(collect(seen));
        consumer.start();
        awaitShares(topic, 4, consumer);
        await("the backlog", () -> seen.size() >= WANTED.size());
        exactly(seen, 1);
        send(producer, topic);
        await("the matches", () -> seen.size() >= 2 * WANTED.size());
        exactly(seen, 2);
        consumer.shutdown();
        producer.shutdown();
        return "twice " + WANTED;
    }

    static String litePull(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(topic);
        consumer.setNamesrvAddr(harness.namesrv);
        consumer.setInstanceName(topic + "-lite-" + System.nanoTime());
        consumer.setMqClientApiTimeout(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumerPullTimeoutMillis(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(EXPRESSION));
        consumer.start();
        List<String> seen = list();
        await("the messages", () -> {
            for (MessageExt message : consumer.poll(1000)) {
                seen.add(text(message.getBody()));
            }
            return seen.size() >= WANTED.size();
        });
        exactly(seen, 1);
        consumer.shutdown();
        producer.shutdown();
        return String.valueOf(seen);
    }

    @SuppressWarnings("deprecation")
    static String pull(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(topic);
        consumer.setNamesrvAddr(harness.namesrv);
        consumer.setInstanceName(topic + "-pull-" + System.nanoTime());
        consumer.setMqClientApiTimeout(Harness.CALL_TIMEOUT_MS);
        consumer.setConsumerPullTimeoutMillis(Harness.CALL_TIMEOUT_MS);
        consumer.start();
        List<String> seen = new ArrayList<>();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        // The client sends SQL only to brokers whose version it knows from its first heartbeat to them.
        MQClientInstance client = consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
        client.updateTopicRouteInfoFromNameServer(topic);
        client.sendHeartbeatToAllBrokerWithLock();
        for (MessageQueue queue : queues) {
            long end = consumer.maxOffset(queue);
            PullResult none = consumer.pull(queue, MessageSelector.bySql("size > 100"), 0, 32);
            same(end > 0 ? PullStatus.NO_MATCHED_MSG : PullStatus.NO_NEW_MSG, none.getPullStatus(), "status");
            same(end, none.getNextBeginOffset(), "next offset");
            PullResult some = consumer.pull(queue, MessageSelector.bySql(EXPRESSION), 0, 32);
            if (some.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : some.getMsgFoundList()) {
                    seen.add(text(message.getBody()));
                }
            }
        }
        exactly(seen, 1);
        consumer.shutdown();
        producer.shutdown();
        return String.valueOf(seen);
    }

    /** A wrong expression fails the start with the broker's code. */
    static String wrong(Harness harness, String topic) throws Exception {
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, MessageSelector.bySql("size BETWEEN 8 AND 2"));
        consumer.registerMessageListener(collect(list()));
        try {
            consumer.start();
        } catch (MQClientException refused) {
            same(23, refused.getResponseCode(), "code");
            consumer.shutdown();
            return refused.getErrorMessage();
        }
        consumer.shutdown();
        check(false, "the consumer started");
        return "";
    }
}
