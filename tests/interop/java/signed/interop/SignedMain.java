package interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Sends, consumes and administers with right, wrong and missing credentials; prints a line for each result. */
public final class SignedMain {
    private static String namesrv;
    private static int instances;

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        String topic = args[1];
        String group = args[2];
        send("right", hook("producer", "producer-secret"), topic);
        send("wrong-secret", hook("producer", "another-secret"), topic);
        send("unknown-user", hook("nobody-at-all", "another-secret"), topic);
        send("unsigned", null, topic);
        send("not-allowed", hook("consumer", "consumer-secret"), topic);
        consume("consumed", hook("consumer", "consumer-secret"), topic, group);
        admin("admin-right", hook("administrator", "administrator-secret"));
        admin("admin-wrong", hook("administrator", "another-secret"));
        System.exit(0);
    }

    private static RPCHook hook(String accessKey, String secretKey) {
        return new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }

    private static void send(String name, RPCHook hook, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("signed_producer", hook);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("signed-" + instances++);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        try {
            Message message = new Message(topic, "tag", "key", name.getBytes(StandardCharsets.UTF_8));
            System.out.println(name + ": " + producer.send(message).getSendStatus());
        } catch (MQBrokerException refused) {
            System.out.println(name + ": " + refused.getResponseCode() + " " + refused.getErrorMessage());
        } catch (MQClientException failed) {
            String text = failed.getErrorMessage() + " " + failed.getCause();
            System.out.println(name + ": " + failed.getResponseCode() + " " + text.replace('\n', ' '));
        } finally {
            producer.shutdown();
        }
    }

    private static void consume(String name, RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("signed-" + instances++);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        CountDownLatch retried = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (message.getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                System.out.println(name + ": " + body + " " + message.getReconsumeTimes());
                retried.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!retried.await(60, TimeUnit.SECONDS)) {
            System.out.println(name + ": nothing");
        }
        consumer.shutdown();
    }

    private static void admin(String name, RPCHook hook) {
        System.out.println(name + ":");
        MQAdminStartup.main0(new String[] {"topicList", "-n", namesrv}, hook);
    }
}
