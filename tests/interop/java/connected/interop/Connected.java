package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Stays connected while its user changes: sends each line of its input, and prints what it sent and consumed. */
public final class Connected {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        RPCHook hook = args[3].isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(args[3], args[4]));
        DefaultMQProducer producer = new DefaultMQProducer("connected_producer", hook);
        producer.setNamesrvAddr(args[0]);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2], hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                print("consumed " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            print("sent " + line + ": " + send(producer, new Message(topic, line.getBytes(StandardCharsets.UTF_8))));
        }
        System.exit(0);
    }

    private static String send(DefaultMQProducer producer, Message message) throws Exception {
        try {
            return producer.send(message).getSendStatus().toString();
        } catch (MQBrokerException refused) {
            return refused.getResponseCode() + " " + refused.getErrorMessage();
        } catch (MQClientException failed) {
            return failed.getResponseCode() + " " + String.valueOf(failed.getCause()).replace('\n', ' ');
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
    }
}
