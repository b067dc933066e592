package interop;

import static interop.Harness.await;
import static interop.Harness.check;
import static interop.Harness.same;
import static interop.Harness.text;
import static interop.Harness.utf8;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions: ended at once, and ended by the answer to a broker's check. The server checks every second. */
final class TransactionScenarios {
    static void addTo(Harness harness) {
        harness.add("transaction", TransactionScenarios::transaction);
        harness.add("transaction_check", TransactionScenarios::transactionCheck);
    }

    /** Says of each body what it says: "commit", "rollback" or "unknown"; a check reads the part behind the colon. */
    private static final class Listener implements TransactionListener {
        final Map<String, MessageExt> checked = new ConcurrentHashMap<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
            return state(text(message.getBody()).split(":")[0]);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = text(message.getBody());
            boolean again = checked.put(body, message) != null;
            String[] parts = body.split(":");
            return state(again ? parts[parts.length - 1] : parts[1]);
        }

        private static LocalTransactionState state(String word) {
            switch (word) {
                case "commit":
                    return LocalTransactionState.COMMIT_MESSAGE;
                case "rollback":
                    return LocalTransactionState.ROLLBACK_MESSAGE;
                default:
                    return LocalTransactionState.UNKNOW;
            }
        }
    }

    private static TransactionMQProducer producer(Harness harness, String topic, Listener listener) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(topic + "-producer");
        producer.setNamesrvAddr(harness.namesrv);
        producer.setInstanceName(topic + "-producer-" + System.nanoTime());
        producer.setSendMsgTimeout(Harness.CALL_TIMEOUT_MS);
        producer.setTransactionListener(listener);
        producer.start();
        return producer;
    }

    private static DefaultMQPushConsumer consumer(Harness harness, String topic, List<MessageExt> seen)
        throws Exception {
        DefaultMQPushConsumer consumer = harness.consumer(topic);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            seen.addAll(batch);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    static String transaction(Harness harness, String topic) throws Exception {
        List<MessageExt> seen = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = consumer(harness, topic, seen);
        TransactionMQProducer producer = producer(harness, topic, new Listener());
        producer.sendMessageInTransaction(new Message(topic, "TagT", "k", utf8("rollback")), null);
        Message message = new Message(topic, "TagT", "tx-key", utf8("commit"));
        message.putUserProperty("color", "red");
        TransactionSendResult sent = producer.sendMessageInTransaction(message, "arg");
        same(SendStatus.SEND_OK, sent.getSendStatus(), "status");
        same(LocalTransactionState.COMMIT_MESSAGE, sent.getLocalTransactionState(), "state");
        producer.send(new Message(topic, utf8("last")));
        await("two messages", () -> seen.size() >= 2);
        Thread.sleep(200);
        same(2, seen.size(), "messages");
        MessageExt found = seen.stream().filter(one -> text(one.getBody()).equals("commit")).findFirst().get();
        same(sent.getMsgId(), found.getMsgId(), "message id");
        same(sent.getTransactionId(), found.getProperty("__transactionId__"), "transaction id");
        same("TagT", found.getTags(), "tag");
        same("red", found.getProperty("color"), "property");
        same(topic, found.getTopic(), "topic");
        check((found.getSysFlag() & 12) == 8, "sysFlag " + found.getSysFlag());
        check(found.getPreparedTransactionOffset() >= 0, "prepared offset");
        producer.shutdown();
        consumer.shutdown();
        return "one of two";
    }

    static String transactionCheck(Harness harness, String topic) throws Exception {
        List<MessageExt> seen = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = consumer(harness, topic, seen);
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(harness, topic, listener);
        TransactionSendResult sent =
            producer.sendMessageInTransaction(new Message(topic, "TagC", "k", utf8("unknown:commit")), null);
        producer.sendMessageInTransaction(new Message(topic, utf8("unknown:rollback")), null);
        producer.sendMessageInTransaction(new Message(topic, utf8("unknown:unknown:commit")), null);
        await("the checks", () -> listener.checked.size() == 3);
        await("two messages", () -> seen.size() >= 2);
        MessageExt asked = listener.checked.get("unknown:commit");
        same(topic, asked.getTopic(), "topic of the question");
        same(sent.getMsgId(), asked.getTransactionId(), "transaction id of the question");
        same("TagC", asked.getTags(), "tag of the question");
        same("1", asked.getProperty("TRANSACTION_CHECK_TIMES"), "check times");
        Thread.sleep(3000);
        check(seen.stream().noneMatch(one -> text(one.getBody()).contains("rollback")), "a rolled back message came");
        producer.shutdown();
        consumer.shutdown();
        return "checked 3";
    }
}
