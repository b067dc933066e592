package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer and a consumer that take commands from standard input, on brokers whose master and slaves come and go.
 *
 * NAMESRV TOPIC. Lines: "send BODY" prints "sent BODY STATUS OFFSET" or "failed BODY CODE REMARK"; "consume GROUP" starts the
 * consumer, which prints "got BODY"; "suspend" and "resume" are its own.
 */
public final class Replicas {
    private static final int INTERVAL_MS = 1000;
    private static final int TIMEOUT_MS = 30_000; // a new JVM on a busy machine: with the default of 3 s there is no route

    private final PrintStream out;
    private final String namesrv;
    private final String topic;
    private DefaultMQPushConsumer consumer;

    private Replicas(PrintStream out, String namesrv, String topic) {
        this.out = out;
        this.namesrv = namesrv;
        this.topic = topic;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        System.setProperty("com.rocketmq.remoting.client.connect.timeout", String.valueOf(TIMEOUT_MS));
        new Replicas(out, args[0], args[1]).run();
        System.exit(0);
    }

    private void run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java-replicas");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("producer");
        producer.setPollNameServerInterval(INTERVAL_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 2);
            switch (words[0]) {
                case "send":
                    send(producer, words[1]);
                    break;
                case "consume":
                    consume(words[1]);
                    break;
                case "suspend":
                    consumer.suspend();
                    print("suspended");
                    break;
                case "resume":
                    consumer.resume();
                    print("resumed");
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
    }

    private void send(DefaultMQProducer producer, String body) {
        try {
            SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
            print("sent " + body + " " + result.getSendStatus() + " " + result.getQueueOffset());
        } catch (Exception failed) {
            Throwable cause = failed.getCause() != null ? failed.getCause() : failed;
            boolean refused = cause instanceof MQBrokerException;
            int code = refused ? ((MQBrokerException) cause).getResponseCode() : -1;
            String text = refused ? ((MQBrokerException) cause).getErrorMessage() : cause.toString();
            print("failed " + body + " " + code + " " + text.replace('\n', ' '));
        }
    }

    private void consume(String group) throws Exception {
        consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("consumer");
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.setPollNameServerInterval(INTERVAL_MS);
        consumer.setHeartbeatBrokerInterval(INTERVAL_MS);
        consumer.setPersistConsumerOffsetInterval(INTERVAL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                print("got " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        print("consuming");
    }

    private synchronized void print(String line) {
        out.println(line);
    }
}
