package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** An orderly consumer that prints what it gets: NAMESRV TOPIC TAGS. A line: id, queue, offset, flag, tags, keys, ordering key, body. */
public final class Reader {
    private Reader() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-reader");
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], args[2]);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                out.println(String.join(
                    "\t", message.getMsgId(), String.valueOf(message.getQueueId()), String.valueOf(message.getQueueOffset()),
                    String.valueOf(message.getFlag()), String.valueOf(message.getTags()), String.valueOf(message.getKeys()),
                    String.valueOf(message.getProperty("__SHARDINGKEY")), body));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        while (System.in.read() >= 0) {
            // runs until its input ends
        }
        consumer.shutdown();
        System.exit(0);
    }
}
