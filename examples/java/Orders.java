// Starts a broker for a test, sends an order and receives it, with Apache's Java client. Needs pymq on PATH.
//
//     javac -cp 'lib/*' Orders.java && java -cp 'lib/*:.' Orders      (lib: org.apache.rocketmq:rocketmq-client:5.3.3)
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Orders {
    public static void main(String[] arguments) throws Exception {
        Process broker = new ProcessBuilder(
                "pymq", "standalone", "--ephemeral", "--namesrv-port", "0", "--port", "0", "--json")
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            String ready = broker.inputReader().readLine();
            if (ready == null) {
                throw new IllegalStateException("the broker did not start");
            }
            Matcher namesrv = Pattern.compile("\"namesrv\": *\"([^\"]+)\"").matcher(ready);
            namesrv.find();
            System.out.println("received " + roundTrip(namesrv.group(1)));
        } finally {
            broker.destroy();
            broker.waitFor(30, TimeUnit.SECONDS);
        }
        System.exit(0);
    }

    private static String roundTrip(String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("orders");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        producer.send(new Message("Orders", "paid", "order-1", "{\"id\": 1}".getBytes()), 30_000);

        CompletableFuture<String> received = new CompletableFuture<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("Orders", "paid");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.complete(new String(messages.get(0).getBody()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            return received.get(60, TimeUnit.SECONDS);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }
}
