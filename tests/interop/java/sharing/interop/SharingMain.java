package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What the Java client decides without a server. `strategies` prints the shares of all strategies, a JSON line each.
 * `write` and `read` keep a broadcasting consumer's offsets under rocketmq.client.localOffsetStoreDir.
 */
public final class SharingMain {
    private static final String GROUP = "sharing_group";
    private static final String CLIENT = "10.0.0.1@billing";

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "strategies": strategies(); break;
            case "write": write(); break;
            default: read();
        }
        System.exit(0);
    }

    private static void strategies() {
        for (String[] rooms : new String[][] {{"r1"}, {"r1", "r2"}, {"r1", "r2", "r3"}}) {
            for (int queuesEach : new int[] {1, 3, 8}) {
                for (int clients : new int[] {1, 2, 3, 5}) {
                    share(rooms, queuesEach, clients);
                }
            }
        }
    }

    private static void share(String[] rooms, int queuesEach, int clients) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String room : rooms) {
            for (int queue = 0; queue < queuesEach; queue++) {
                queues.add(new MessageQueue("Orders", room + "@broker", queue));
            }
        }
        List<String> members = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            members.add("r" + (1 + client % 2) + "-10.0.0." + client + "@billing");
        }
        Collections.sort(queues);
        Collections.sort(members);
        for (AllocateMessageQueueStrategy strategy : all(queues)) {
            List<String> shares = new ArrayList<>();
            for (String member : members) {
                List<Integer> share = new ArrayList<>();
                for (MessageQueue queue : strategy.allocate(GROUP, member, queues, members)) {
                    share.add(queues.indexOf(queue));
                }
                shares.add(share.toString());
            }
            System.out.println("{\"strategy\": \"" + strategy.getName() + nodesOf(strategy) + "\", \"rooms\": " + rooms.length
                + ", \"queues\": " + queuesEach + ", \"clients\": " + clients + ", \"shares\": " + shares + "}");
        }
    }

    private static List<AllocateMessageQueueStrategy> all(List<MessageQueue> queues) {
        AllocateMessageQueueByConfig configured = new AllocateMessageQueueByConfig();
        configured.setMessageQueueList(queues.subList(0, 1));
        AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
        rooms.setConsumeridcs(new HashSet<>(Arrays.asList("r1", "r3")));
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@")[0];
            }

            @Override
            public String consumerDeployIn(String client) {
                return client.split("-")[0];
            }
        };
        return Arrays.asList(
            new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(),
            new AllocateMessageQueueConsistentHash(), new AllocateMessageQueueConsistentHash(3), configured, rooms,
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver),
            new AllocateMachineRoomNearby(new AllocateMessageQueueConsistentHash(), resolver));
    }

    private static String nodesOf(AllocateMessageQueueStrategy strategy) {
        if (!(strategy instanceof AllocateMessageQueueConsistentHash)) {
            return "";
        }
        try {
            java.lang.reflect.Field field = strategy.getClass().getDeclaredField("virtualNodeCnt");
            field.setAccessible(true);
            return ":" + field.getInt(strategy);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static LocalFileOffsetStore store() throws Exception {
        LocalFileOffsetStore store = new LocalFileOffsetStore(new MQClientInstance(new ClientConfig(), 0, CLIENT), GROUP);
        store.load();
        return store;
    }

    private static void write() throws Exception {
        LocalFileOffsetStore store = store();
        HashSet<MessageQueue> queues = new HashSet<>();
        for (int queue = 0; queue < 3; queue++) {
            MessageQueue one = new MessageQueue("Orders", "broker-a", queue);
            store.updateOffset(one, 100L + queue, false);
            queues.add(one);
        }
        store.persistAll(queues);
    }

    private static void read() throws Exception {
        LocalFileOffsetStore store = store();
        for (int queue = 0; queue < 4; queue++) {
            MessageQueue one = new MessageQueue("Orders", "broker-a", queue);
            System.out.println(queue + " " + store.readOffset(one, ReadOffsetType.READ_FROM_STORE));
        }
    }
}
