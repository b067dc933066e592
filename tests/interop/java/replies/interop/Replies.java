package interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** Sends requests as the first user, consumes and replies as each other one; prints what the requester gets. */
public final class Replies {
    private static final int WAIT_MS = 10_000;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        String topic = args[1];
        String group = args[2];
        DefaultMQProducer requester = producer(namesrv, "requesters", args[3]);
        for (String user : List.of(args).subList(4, args.length)) {
            DefaultMQProducer replier = producer(namesrv, "repliers", user);
            DefaultMQPushConsumer consumer =
                    new DefaultMQPushConsumer(null, group, hook(user), new AllocateMessageQueueAveragely());
            consumer.setNamesrvAddr(namesrv);
            consumer.setInstanceName("consumer-" + user);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            CountDownLatch answered = new CountDownLatch(1);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    String said = answer(replier, message);
                    System.out.println("replier " + user + ": " + said.replace('\n', ' '));
                    answered.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            System.out.println("requester " + user + ": " + ask(requester, topic));
            answered.await();
            consumer.shutdown();
            replier.shutdown();
        }
        System.exit(0);
    }

    private static RPCHook hook(String user) {
        return new AclClientRPCHook(new SessionCredentials(user, user + "-secret"));
    }

    private static DefaultMQProducer producer(String namesrv, String group, String user) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, hook(user));
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + "-" + user);
        producer.start();
        return producer;
    }

    /** Returns the reply. With the callback, because the waiting form of 5.3.3 returns once the request is sent. */
    private static String ask(DefaultMQProducer requester, String topic) throws Exception {
        CompletableFuture<String> said = new CompletableFuture<>();
        Message request = new Message(topic, "ping".getBytes(StandardCharsets.UTF_8));
        requester.request(request, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                said.complete(new String(reply.getBody(), StandardCharsets.UTF_8));
            }

            @Override
            public void onException(Throwable failed) {
                said.complete(failed.toString().replace('\n', ' '));
            }
        }, WAIT_MS);
        return said.get();
    }

    private static String answer(DefaultMQProducer replier, MessageExt message) {
        try {
            byte[] body = ("pong for " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes();
            return replier.send(MessageUtil.createReplyMessage(message, body)).getSendStatus().toString();
        } catch (Exception failed) {
            return failed.toString();
        }
    }
}
