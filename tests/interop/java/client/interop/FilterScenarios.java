package interop;

import static interop.ConsumeScenarios.collect;
import static interop.ConsumeScenarios.list;
import static interop.Harness.await;
import static interop.Harness.awaitShares;
import static interop.Harness.same;
import static interop.Harness.utf8;

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Class filter mode, through filter servers. Of the messages 0 to 9 of a round the filter matches 2, 3, 5 and 7. */
final class FilterScenarios {
    private static final String FILTER = "pymq.filters.sql92";
    private static final String EXPRESSION = "size IN ('2', '3', '5', '7')";
    private static final List<Integer> WANTED = Arrays.asList(2, 3, 5, 7);
    private static final int ROUNDS = 60;
    private static final int ROUND_PAUSE_MS = 250;

    static void addTo(Harness harness) {
        harness.add("filter_by_name", (own, topic) -> twice(own, topic, FILTER + ":" + EXPRESSION, ""));
        harness.add("filter_by_source", (own, topic) -> twice(own, topic, FILTER, "  " + EXPRESSION + "\n"));
        harness.add("filter_killed", FilterScenarios::killed);
    }

    private static void send(DefaultMQProducer producer, String topic, int round) throws Exception {
        for (int i = 0; i < 10; i++) {
            Message message = new Message(topic, utf8(round + "-" + i));
            message.putUserProperty("size", String.valueOf(i));
            producer.send(message);
        }
    }

    private static Set<String> wanted(int rounds) {
        Set<String> wanted = new HashSet<>();
        for (int round = 0; round < rounds; round++) {
            for (int i : WANTED) {
                wanted.add(round + "-" + i);
            }
        }
        return wanted;
    }

    private static void exactly(List<String> seen, int rounds) {
        synchronized (seen) {
            same(wanted(rounds), new HashSet<>(seen), "messages");
            same(rounds * WANTED.size(), seen.size(), "their number");
        }
    }

    private static DefaultMQPushConsumer start(Harness harness, String topic, String name, String source,
            List<String> seen) throws Exception {
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, name, source);
        consumer.registerMessageListener(collect(seen));
        consumer.start();
        awaitShares(topic, 4, consumer);
        return consumer;
    }

    /** First a backlog, then messages that arrive during long polling. */
    private static String twice(Harness harness, String topic, String name, String source) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        send(producer, topic, 0);
        List<String> seen = list();
        DefaultMQPushConsumer consumer = start(harness, topic, name, source, seen);
        await("the backlog", () -> seen.size() >= WANTED.size());
        exactly(seen, 1);
        send(producer, topic, 1);
        await("the matches", () -> seen.size() >= 2 * WANTED.size());
        exactly(seen, 2);
        consumer.shutdown();
        producer.shutdown();
        return "twice " + WANTED;
    }

    /** One of two filter servers is killed from outside while messages arrive: none is lost. */
    private static String killed(Harness harness, String topic) throws Exception {
        DefaultMQProducer producer = harness.producer(topic);
        List<String> seen = list();
        DefaultMQPushConsumer consumer = start(harness, topic, FILTER + ":" + EXPRESSION, "", seen);
        for (int round = 0; round < ROUNDS; round++) {
            send(producer, topic, round);
            Thread.sleep(ROUND_PAUSE_MS);
        }
        await("all messages", () -> seen.size() >= ROUNDS * WANTED.size());
        exactly(seen, ROUNDS);
        consumer.shutdown();
        producer.shutdown();
        return seen.size() + " messages";
    }
}
