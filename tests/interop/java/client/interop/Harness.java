package interop;

import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Runs scenarios concurrently, prints one JSON line for each, and creates their clients. */
final class Harness {
    /** Thrown by a scenario when the server under test does not support it. */
    static final class NotServed extends Exception {
        NotServed(String message) {
            super(message);
        }
    }

    interface Scenario {
        String run(Harness harness, String topic) throws Exception;
    }

    static final long WAIT_MS = 120_000;
    /** The client's default of 3 s is too short on a busy machine. */
    static final int CALL_TIMEOUT_MS = 30_000;
    private static final int STABLE_POLLS = 20;
    private static final int SIDE_BY_SIDE = 5;

    final String namesrv;
    final String prefix;
    private final PrintStream out;
    private final Map<String, Scenario> scenarios = new LinkedHashMap<>();

    Harness(String namesrv, String prefix, PrintStream out) {
        this.namesrv = namesrv;
        this.prefix = prefix;
        this.out = out;
    }

    void add(String name, Scenario scenario) {
        scenarios.put(name, scenario);
    }

    /** Topics and groups are named after the scenario: PREFIX-scenario. */
    String nameOf(String scenario) {
        return prefix + "-" + scenario;
    }

    boolean runAll(List<String> wanted) throws InterruptedException {
        List<String> failed = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(SIDE_BY_SIDE);
        for (Map.Entry<String, Scenario> entry : scenarios.entrySet()) {
            if (wanted.isEmpty() || wanted.contains(entry.getKey())) {
                pool.execute(() -> {
                    if (!runOne(entry.getKey(), entry.getValue())) {
                        synchronized (failed) {
                            failed.add(entry.getKey());
                        }
                    }
                });
            }
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
        return failed.isEmpty();
    }

    private boolean runOne(String name, Scenario scenario) {
        try {
            report(name, true, scenario.run(this, nameOf(name)));
            return true;
        } catch (NotServed notServed) {
            report(name, false, "not served: " + notServed.getMessage());
        } catch (Throwable failure) {
            failure.printStackTrace();
            StackTraceElement[] trace = failure.getStackTrace();
            report(name, false, failure + (trace.length > 0 ? " at " + trace[0] : ""));
        }
        return false;
    }

    private void report(String name, boolean ok, String detail) {
        synchronized (out) {
            out.println("{\"scenario\":" + quote(name) + ",\"ok\":" + ok + ",\"detail\":" + quote(detail) + "}");
            out.flush();
        }
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : String.valueOf(text).toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    static void check(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    static void same(Object expected, Object actual, String what) {
        check(expected.equals(actual), what + ": expected " + expected + ", got " + actual);
    }

    static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (!condition.getAsBoolean()) {
            check(System.currentTimeMillis() < deadline, "waited " + WAIT_MS + " ms for " + what);
            Thread.sleep(20);
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group + "-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + "-producer-" + System.nanoTime());
        producer.setSendMsgTimeout(CALL_TIMEOUT_MS);
        producer.setMqClientApiTimeout(CALL_TIMEOUT_MS);
        producer.start();
        return producer;
    }

    /** A push consumer of the group, from the first offset, not started yet. */
    DefaultMQPushConsumer consumer(String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-consumer-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(CALL_TIMEOUT_MS);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(4);
        // A shutdown stores the offsets: wait for handlers that are about to return.
        consumer.setAwaitTerminationMillisWhenShutdown(WAIT_MS);
        return consumer;
    }

    /** The enum is in a different package in each of the two client versions. */
    static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        setEnum(consumer, "setMessageModel", "BROADCASTING");
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static boolean setEnum(Object target, String setter, String value) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterTypes()[0].isEnum()) {
                method.invoke(target, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], value));
                return true;
            }
        }
        return false;
    }

    /**
     * Waits until each consumer holds count queues of the topic, and still after a while. A consumer that just joined
     * takes all queues step by step, passing every number, before it knows of the others.
     */
    static void awaitShares(String topic, int count, DefaultMQPushConsumer... consumers) throws InterruptedException {
        int[] inARow = {0};
        await("shares of " + count + " queues of " + topic, () -> {
            boolean shared = true;
            for (DefaultMQPushConsumer consumer : consumers) {
                shared &= consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
                    .stream().filter(queue -> queue.getTopic().equals(topic)).count() == count;
            }
            inARow[0] = shared ? inARow[0] + 1 : 0;
            return inARow[0] >= STABLE_POLLS;
        });
    }
}
