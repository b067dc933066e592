package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends until the broker is gone, once for each line ROUND on standard input: NAMESRV TOPIC THREADS.
 *
 * Prints "ok QUEUE OFFSET SENDER NUMBER" for each acknowledged message, "end SENDER NUMBERS" when a sender gives up
 * (numbers 0 to NUMBERS-1 were tried), and "done ROUND". Sender 0 only waits until the broker takes messages.
 */
public final class Load {
    private static final int BATCH_SIZE = 5;
    private static final int TRIES_MAX = 300;

    private final DefaultMQProducer producer;
    private final String topic;
    private final PrintStream out;

    private Load(DefaultMQProducer producer, String topic, PrintStream out) {
        this.producer = producer;
        this.topic = topic;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        // Output of the client library must not mix with the lines of this program.
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        DefaultMQProducer producer = new DefaultMQProducer("java-load");
        producer.setNamesrvAddr(args[0]);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        Load load = new Load(producer, args[1], out);
        int threadCount = Integer.parseInt(args[2]);
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String round = rounds.readLine(); round != null; round = rounds.readLine()) {
            load.run(round, threadCount);
            load.print("done " + round);
        }
        System.exit(0);
    }

    private void run(String round, int threadCount) throws Exception {
        List<MessageQueue> queues = awaitBroker(round);
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i <= threadCount; i++) {
            int sender = i;
            Thread thread = new Thread(() -> sendUntilRefused(round, sender, queues));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private List<MessageQueue> awaitBroker(String round) throws Exception {
        Exception last = null;
        for (int number = 0; number < TRIES_MAX; number++) {
            try {
                List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
                acknowledged(producer.send(message(round, 0, number), queues.get(0)), 0, number, 1);
                print("end 0 " + (number + 1));
                return queues;
            } catch (Exception notYet) {
                last = notYet;
                Thread.sleep(100);
            }
        }
        throw last;
    }

    private void sendUntilRefused(String round, int sender, List<MessageQueue> queues) {
        int number = 0;
        int tried = 0;
        try {
            for (int turn = 0; ; turn++) {
                MessageQueue queue = queues.get((sender + turn) % queues.size());
                int count = turn % 4 == 3 ? BATCH_SIZE : 1;
                List<Message> messages = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    messages.add(message(round, sender, number + i));
                }
                tried = number + count;
                SendResult result = count == 1 ? producer.send(messages.get(0), queue) : producer.send(messages, queue);
                acknowledged(result, sender, number, count);
                number += count;
            }
        } catch (Exception gone) {
            print("end " + sender + " " + tried);
        }
    }

    private Message message(String round, int sender, int number) {
        StringBuilder body = new StringBuilder("java-" + round + "-" + sender + "-" + number + "-");
        for (int i = 0; i < number * 31 % 300; i++) {
            body.append('x');
        }
        String key = "java-" + round + "-" + sender + "-" + number;
        return new Message(topic, "J", key, body.toString().getBytes(StandardCharsets.UTF_8));
    }

    private void acknowledged(SendResult result, int sender, int number, int count) {
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            lines.append(i == 0 ? "" : "\n").append("ok ").append(result.getMessageQueue().getQueueId()).append(' ')
                .append(result.getQueueOffset() + i).append(' ').append(sender).append(' ').append(number + i);
        }
        print(lines.toString());
    }

    private void print(String lines) {
        synchronized (out) {
            out.print(lines + "\n");
            out.flush();
        }
    }
}
