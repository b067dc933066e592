package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends through all broker failures until its standard input ends: NAMESRV TOPIC THREADS PAUSE_MS.
 *
 * One line for each send of COUNT messages, numbered from NUMBER on: "ok QUEUE OFFSET IDS SENDER NUMBER COUNT" when it
 * was acknowledged, "stored STATUS …" when it was stored but not confirmed, "refused CODE …", and "unknown ERROR …" when
 * no answer came. A sender never uses a number again; "end SENDER NUMBERS" gives their number.
 */
public final class Chaos {
    private static final int BATCH_SIZE = 5;
    private static final int TIMEOUT_MS = 4000;
    private static final int PAUSE_AFTER_FAILURE_MS = 50;

    private final DefaultMQProducer producer;
    private final String topic;
    private final int pauseMs;
    private final PrintStream out;
    private volatile List<MessageQueue> queues;
    private volatile boolean isOver;

    private Chaos(DefaultMQProducer producer, String topic, int pauseMs, PrintStream out) {
        this.producer = producer;
        this.topic = topic;
        this.pauseMs = pauseMs;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        // Output of the client library must not mix with the lines of this program.
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        DefaultMQProducer producer = new DefaultMQProducer("chaos-load");
        producer.setNamesrvAddr(args[0]);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setPollNameServerInterval(500);
        producer.setHeartbeatBrokerInterval(1000);
        producer.start();
        new Chaos(producer, args[1], Integer.parseInt(args[3]), out).run(Integer.parseInt(args[2]));
        System.exit(0);
    }

    private void run(int threadCount) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i <= threadCount; i++) {
            int sender = i;
            Thread thread = new Thread(() -> sendOnAndOn(sender));
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) {
            // Its end is the signal to stop.
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void sendOnAndOn(int sender) {
        int number = 0;
        for (int turn = 0; !isOver; turn++) {
            int count = turn % 4 == 3 ? BATCH_SIZE : 1;
            pause(send(sender, turn, number, count) ? pauseMs : PAUSE_AFTER_FAILURE_MS);
            number += count;
        }
        print("end " + sender + " " + number);
    }

    private boolean send(int sender, int turn, int number, int count) {
        String what = " " + sender + " " + number + " " + count;
        try {
            if (queues == null) {
                queues = producer.fetchPublishMessageQueues(topic);
            }
            MessageQueue queue = queues.get((sender + turn) % queues.size());
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                messages.add(message(sender, number + i));
            }
            SendResult result = count == 1
                ? producer.send(messages.get(0), queue, TIMEOUT_MS)
                : producer.send(messages, queue, TIMEOUT_MS);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                print("stored " + result.getSendStatus() + what);
                return false;
            }
            String place = result.getMessageQueue().getQueueId() + " " + result.getQueueOffset();
            print("ok " + place + " " + result.getOffsetMsgId() + what);
            return true;
        } catch (MQBrokerException refused) {
            print("refused " + refused.getResponseCode() + what);
        } catch (Exception lost) {
            print("unknown " + lost.getClass().getSimpleName() + what);
        }
        return false;
    }

    private Message message(int sender, int number) {
        StringBuilder body = new StringBuilder("chaos-" + sender + "-" + number + "-");
        for (int i = 0; i < number * 31 % 300; i++) {
            body.append('x');
        }
        String key = "chaos-" + sender + "-" + number;
        return new Message(topic, "C", key, body.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }

    private void print(String line) {
        synchronized (out) {
            out.print(line + "\n");
            out.flush();
        }
    }
}
