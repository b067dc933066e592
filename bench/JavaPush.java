import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Reads a backlog with a push consumer that has its default settings and a handler that only counts.
 *
 * Arguments: NAMESRV TOPIC MESSAGES. Prints one line: messages a second from the first one on, and this process's CPU
 * time of a message in microseconds.
 */
public final class JavaPush {
    public static void main(String[] args) throws Exception {
        long count = Long.parseLong(args[2]);
        AtomicLong seen = new AtomicLong();
        AtomicLong begunNs = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_java_push");
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            begunNs.compareAndSet(0, System.nanoTime());
            if (seen.addAndGet(messages.size()) >= count) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        double seconds = (System.nanoTime() - begunNs.get()) / 1e9;
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        System.out.println(count / seconds + " " + system.getProcessCpuTime() / 1e3 / count);
        System.exit(0);
    }
}
