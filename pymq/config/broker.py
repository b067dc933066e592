"""Every key of a broker: RocketMQ's own where there is one, and PyMQ's limits beside them."""

# One key per row reads best as a table.
# ruff: noqa: E501, SIM905

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pymq.config.base import ORIGIN_DEFAULT, setting
from pymq.config.raft import ENABLED_KEY as RAFT_KEY
from pymq.config.raft import GROUP_KEY, PEERS_KEY, PREFERRED_KEY, SELF_KEY, RaftConfig
from pymq.config.replication import check_replication
from pymq.config.rocketmq_keys import BROKER_KEYS, NO_EFFECT
from pymq.config.security import AUTH_FILE_NAME, check_security, has_users
from pymq.config.server import ServerConfig
from pymq.config.values import BROKER_ID_MAX
from pymq.config.workers import WorkersConfig
from pymq.errors import ConfigError
from pymq.units import parse_duration_ms, split_name_servers

_THREADS = "PyMQ serves requests on one event loop, without thread pools"
_HOURS = (r"(2[0-3]|[01]?\d)(;(2[0-3]|[01]?\d))*;?", "hours from 0 to 23 separated by `;`, for example 04;16")
_LATER = "this version does not have that part"
_CHECKED_ALWAYS = "PyMQ checks each request, by users that it keeps in a file of its own"
_DELETED_AT_ONCE = "a list of topics or groups is deleted with one write of each table, so it needs no rate"
_PROMETHEUS_ALONE = "PyMQ exports metrics only to Prometheus"
ADDRESS_SERVER_PREFIX = "http://"
MIB = 1024 * 1024
LOG_SEGMENTS_MIN = 3  # a limit of the log's size below so many segments is a slip
# A SYNC_MASTER has at most this much unconfirmed: what a demoted one may have that the new master lacks.
TRUNCATION_MAX_BYTES = 64 * MIB


@dataclass
class BrokerConfig(WorkersConfig, RaftConfig, ServerConfig):
    """The configuration of one broker. Attributes carry units; each row starts with its key in ``broker.conf``."""

    # fmt: off
    # Identity and addresses
    broker_cluster_name: str = setting("brokerClusterName", "DefaultCluster", "Cluster this broker belongs to.")
    broker_name: str = setting("brokerName", "broker-a", "Name of the group of brokers with the same data.")
    broker_id: int = setting("brokerId", 0, "0 is the master, others are slaves.", minimum=0, maximum=BROKER_ID_MAX)
    namesrv_addr: str = setting("namesrvAddr", "127.0.0.1:9876", "Name servers, separated by `;`, or the URL of an address server, `http://HOST:PORT/rocketmq/nsaddr` or `https://`; the default is NAMESRV_ADDR from the environment. Empty: none.")
    fetch_from_address_server: bool = setting("fetchNamesrvAddrByAddressServer", False, "Ask an HTTP address server for the name servers, every two minutes; a namesrvAddr that is set wins.")
    address_server_domain: str = setting("rmqAddressServerDomain", "", "Host of that address server, with `:PORT` if it is not 8080.")
    address_server_group: str = setting("rmqAddressServerSubGroup", "nsaddr", "Last part of its path, after `/rocketmq/`.")
    look_up_name_servers: bool = setting("fetchNameSrvAddrByDnsLookup", False, "A host name in namesrvAddr stands for a name server at each of its addresses, looked up every two minutes.")
    listen_port: int = setting("listenPort", 10911, "Port to listen on; 0 takes any free port.", minimum=0, maximum=65535)
    fast_listen_port: int = setting("fastListenPort", 0, "Second port for requests, which Java clients of 4.2 to 4.4 send to; 0: listenPort - 2, if it is free; -1: none.", minimum=-1, maximum=65535)
    broker_ip1: str = setting("brokerIP1", "", "Address that the broker gives to clients, or a name that is looked up at the start; empty: the bind address.")
    broker_role: str = setting("brokerRole", "ASYNC_MASTER", "SYNC_MASTER answers a send once enough slaves have it; a brokerId above 0 means SLAVE.", choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"), runtime=True)

    # Replication
    broker_ip2: str = setting("brokerIP2", "", "Address that the broker gives to slaves; empty: brokerIP1.")
    ha_listen_port: int = setting("haListenPort", 0, "Port for slaves; 0: listenPort + 1, or any free port when that is taken.", minimum=0, maximum=65535)
    ha_master_address: str = setting("haMasterAddress", "", "Slave: its master's HA address (host:port); empty: ask the name servers.")
    ha_unproven_slave_hosts: str = setting("haUnprovenSlaveHosts", "", "Master that checks requests: IP addresses, separated by `;`, of RocketMQ slaves that get the log without proving anything: each program there can.", runtime=True)
    ha_unproven_master_hosts: str = setting("haUnprovenMasterHosts", "", "Slave with the servers' credentials: IP addresses, separated by `;`, of RocketMQ masters that it follows without a proof of theirs.", runtime=True)
    ha_slave_hosts: str = setting("haSlaveHosts", "", "Master: IP addresses of slaves that name servers do not list or that connect from another address than brokerIP1, separated by `;`.", runtime=True)
    ha_truncation_max_bytes: int = setting("haTruncationMax", TRUNCATION_MAX_BYTES, "Slave: most bytes of its log that it truncates on its master's word; beyond, it stops following until `pymq broker rejoin`.", minimum=0, maximum=2**50, runtime=True, is_size=True)
    ha_full_sync: bool = setting("haFullSync", False, "Slave: when new, copy the master's whole log instead of starting at its last segment.")
    in_sync_replicas: int = setting("inSyncReplicas", 2, "SYNC_MASTER: copies of a message, the master's included, that a send waits for.", minimum=1, maximum=16, runtime=True)
    auto_in_sync_replicas: bool = setting("enableAutoInSyncReplicas", False, "SYNC_MASTER: accept fewer slaves in sync, down to minInSyncReplicas, instead of refusing sends.", runtime=True)
    min_in_sync_replicas: int = setting("minInSyncReplicas", 1, "Fewest copies, the master's included, that enableAutoInSyncReplicas accepts; 1 allows the master's alone.", minimum=1, maximum=16, runtime=True)
    slave_timeout_ms: int = setting("slaveTimeout", 3000, "SYNC_MASTER: ms a send waits for slaves before the answer is FLUSH_SLAVE_TIMEOUT (stored, not confirmed).", minimum=10, maximum=600_000, runtime=True)
    ha_max_gap_not_in_sync_bytes: int = setting("haMaxGapNotInSync", 256 * MIB, "Bytes a slave may lag and still count as in sync.", minimum=1, maximum=2**40, runtime=True, is_size=True)
    ha_send_heartbeat_interval_ms: int = setting("haSendHeartbeatInterval", 5000, "ms of silence after which either side sends a heartbeat.", minimum=100, maximum=600_000, runtime=True)
    ha_housekeeping_interval_ms: int = setting("haHousekeepingInterval", 20_000, "ms of silence after which a replication connection is closed.", minimum=500, maximum=600_000, runtime=True)
    ha_transfer_batch_bytes: int = setting("haTransferBatchSize", 256 * 1024, "Most log bytes in one frame to a slave.", minimum=1024, maximum=2 * MIB, runtime=True, is_size=True)
    slave_sync_interval_ms: int = setting("slaveSyncInterval", 300, "Slave: minimum ms between two copies of changed topics, groups and offsets from its master.", minimum=50, maximum=60_000, runtime=True)
    slave_read_enable: bool = setting("slaveReadEnable", True, "Slave: serve pulls. Master: send consumers that are far behind to a slave.", runtime=True)
    access_message_in_memory_max_ratio: int = setting("accessMessageInMemoryMaxRatio", 40, "Master: percent of the machine's memory a consumer may lag before it is sent to a slave.", minimum=0, maximum=95, runtime=True)

    # Store
    store_path_root_dir: str = setting("storePathRootDir", "", "Data directory; empty: `~/.pymq/<brokerName>-<brokerId>`.")
    flush_disk_type: str = setting("flushDiskType", "ASYNC_FLUSH", "SYNC_FLUSH answers a send only after fdatasync.", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), runtime=True)
    mapped_file_size_commit_log_bytes: int = setting("mappedFileSizeCommitLog", 1024 * MIB, "Size of a commit log segment.", minimum=64 * 1024, maximum=1024 * MIB, is_size=True)
    mapped_file_size_consume_queue_bytes: int = setting("mappedFileSizeConsumeQueue", 6_000_000, "Size of a consume queue file.", minimum=400, maximum=1024 * MIB, is_size=True)
    mapper_file_size_batch_consume_queue_bytes: int = setting("mapperFileSizeBatchConsumeQueue", 13_800_000, "Size of a batch queue file (topics with queue.type=BatchCQ).", minimum=460, maximum=1024 * MIB, is_size=True)
    max_hash_slot_num: int = setting("maxHashSlotNum", 5_000_000, "Hash slots of an index file.", minimum=1, maximum=100_000_000)
    max_index_num: int = setting("maxIndexNum", 20_000_000, "Entries of an index file.", minimum=2, maximum=100_000_000)
    message_index_enable: bool = setting("messageIndexEnable", True, "Index messages by key.")
    flush_interval_commit_log_ms: int = setting("flushIntervalCommitLog", 500, "ASYNC_FLUSH: ms between flushes of the log.", minimum=1, maximum=60_000, runtime=True)
    flush_commit_log_least_pages: int = setting("flushCommitLogLeastPages", 0, "ASYNC_FLUSH: 4 KiB pages that a flush of the log waits for; with RocketMQ's 4, a quiet broker's newest messages wait 10 s.", minimum=0, maximum=1_000_000, runtime=True)
    flush_commit_log_thorough_interval_ms: int = setting("flushCommitLogThoroughInterval", 10_000, "ASYNC_FLUSH: ms after which fewer pages are flushed as well.", minimum=100, maximum=600_000, runtime=True)
    sync_flush_timeout_ms: int = setting("syncFlushTimeout", 5000, "SYNC_FLUSH: ms a send waits for the disk before the answer is FLUSH_DISK_TIMEOUT (stored, not confirmed).", minimum=10, maximum=600_000, runtime=True)
    flush_interval_consume_queue_ms: int = setting("flushIntervalConsumeQueue", 1000, "ms between flushes of the queues.", minimum=10, maximum=600_000, runtime=True)
    flush_consumer_offset_interval_ms: int = setting("flushConsumerOffsetInterval", 5000, "ms between saves of consumer offsets.", minimum=100, maximum=600_000, runtime=True)
    flush_delay_offset_interval_ms: int = setting("flushDelayOffsetInterval", 10_000, "ms between saves of the delay levels' progress.", minimum=100, maximum=600_000, runtime=True)

    # Retention
    file_reserved_time_hours: int = setting("fileReservedTime", 72, "Hours a segment is kept after its last change.", minimum=1, maximum=876_000, runtime=True)
    delete_when: str = setting("deleteWhen", "04", "Hours of the day, local time, in which old segments are deleted.", form=_HOURS, runtime=True)
    disk_max_used_space_ratio: int = setting("diskMaxUsedSpaceRatio", 75, "Percent of the disk in use above which old segments are deleted at any hour (10 to 95; 0: off).", minimum=0, maximum=100, runtime=True)
    disk_space_clean_forcibly_ratio: int = setting("diskSpaceCleanForciblyRatio", 85, "Percent above which the oldest segments are deleted whatever their age (30 to 85; 0: off).", minimum=0, maximum=100, runtime=True)
    disk_space_warning_level_ratio: int = setting("diskSpaceWarningLevelRatio", 90, "Percent above which writes are refused (35 to 90; 0: off).", minimum=0, maximum=100, runtime=True)
    clean_file_forcibly_enable: bool = setting("cleanFileForciblyEnable", True, "Let diskSpaceCleanForciblyRatio delete segments.", runtime=True)
    commit_log_bytes_max: int = setting("commitLogBytesMax", 0, "Size of the log above which the oldest segments are deleted whatever their age; 0: off.", minimum=0, maximum=2**62, runtime=True, is_size=True)
    disk_free_bytes_min: int = setting("diskFreeBytesMin", 0, "Free bytes of the disk below which the oldest segments are deleted, and writes refused if none is left; at most half of the disk counts; 0: off.", minimum=0, maximum=2**62, runtime=True, is_size=True)
    delete_file_batch_max: int = setting("deleteFileBatchMax", 10, "Most segments that one pass deletes.", minimum=1, maximum=1000, runtime=True)
    clean_resource_interval_ms: int = setting("cleanResourceInterval", 10_000, "ms between passes; the first runs a minute after the start.", minimum=100, maximum=3_600_000, runtime=True)

    # Integrity and cold segments
    block_digest_enable: bool = setting("blockDigestEnable", True, "Keep a digest of each 4 KiB of the log and compare it on every read.")
    scrub_bytes_per_second: int = setting("scrubBytesPerSecond", 4 * MIB, "Bytes of sealed segments that are read again each second to find damage early; 0: off.", minimum=0, maximum=2**40, runtime=True, is_size=True)
    scrub_interval_hours: int = setting("scrubIntervalHours", 168, "Hours between the end of one scrubbing pass and the next; the first runs a minute after the start.", minimum=1, maximum=876_000, runtime=True)
    cold_segment_hours: int = setting("coldSegmentHours", 0, "Hours after its last change when a sealed segment is compressed; 0: never. `pymq store thaw` decompresses it.", minimum=0, maximum=876_000, runtime=True)
    cold_bytes_per_second: int = setting("coldBytesPerSecond", 16 * MIB, "Bytes per second that compression, and the comparison after it, may take.", minimum=4096, maximum=2**40, runtime=True, is_size=True)

    # Topics, groups, messages
    broker_permission: int = setting("brokerPermission", 6, "2 write, 4 read, 6 both.", minimum=0, maximum=7, runtime=True)
    auto_create_topic_enable: bool = setting("autoCreateTopicEnable", True, "Create a topic on the first send to it.", runtime=True)
    auto_create_subscription_group: bool = setting("autoCreateSubscriptionGroup", True, "Create a group on its first use.", runtime=True)
    lite_topic_count_max: int = setting("liteTopicCountMax", 1_000_000, "Most lite topics of all parents; beyond, a send to a new one is refused (2017). Each takes 200 to 300 bytes of memory.", minimum=0, maximum=10_000_000, runtime=True)
    lite_subscription_count_max: int = setting("maxLiteSubscriptionCount", 1_000_000, "Most subscriptions of clients to lite topics; beyond, more are refused (2018). RocketMQ's default is 100,000, and there a complete set is not counted.", minimum=0, maximum=10_000_000, runtime=True)
    default_topic_queue_nums: int = setting("defaultTopicQueueNums", 8, "Queues of the template topic TBW102: the most that an auto-created topic gets.", minimum=1, maximum=65535, runtime=True)
    store_reply_message_enable: bool = setting("storeReplyMessageEnable", True, "Store replies to requests, beside sending them to the requester.", runtime=True)
    trace_topic_enable: bool = setting("traceTopicEnable", True, "Create the topic for message traces at start.")
    max_message_size_bytes: int = setting("maxMessageSize", 4 * MIB, "Largest body of a send request.", minimum=1024, maximum=15 * MIB, runtime=True, is_size=True)
    message_delay_level: str = setting("messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "Delays of the levels 1, 2, ….")
    timer_wheel_enable: bool = setting("timerWheelEnable", True, "Take and deliver timer messages.", runtime=True)
    timer_max_delay_s: int = setting("timerMaxDelaySec", 259_200, "Seconds that a timer message may wait at most.", minimum=1, maximum=315_360_000, runtime=True)
    timer_precision_ms: int = setting("timerPrecisionMs", 1000, "ms of one slot of the timer wheel; a directory keeps the one that it began with.", minimum=10, maximum=60_000)
    timer_roll_window_slot: int = setting("timerRollWindowSlot", 172_800, "Slots that a timer message waits at most before it is stored again with the rest of its time.", minimum=2, maximum=604_740)
    timer_congest_num_each_slot: int = setting("timerCongestNumEachSlot", 2**31 - 1, "Timer messages of one slot beyond which a send for it is refused; the default is no limit.", minimum=1, maximum=2**31 - 1, runtime=True)
    timer_flush_interval_ms: int = setting("timerFlushIntervalMs", 1000, "ms between saves of wheel, timer log and their progress.", minimum=10, maximum=600_000, runtime=True)
    mapped_file_size_timer_log_bytes: int = setting("mappedFileSizeTimerLog", 100 * MIB, "Size of a segment of the timer log.", minimum=1024, maximum=1024 * MIB, is_size=True)
    recall_message_enable: bool = setting("recallMessageEnable", True, "Let producers recall timer messages that are not due yet (RocketMQ's default is false).", runtime=True)
    max_msgs_num_batch: int = setting("maxMsgsNumBatch", 64, "Most messages in the answer to a look-up by key.", minimum=1, maximum=1024, runtime=True)
    default_query_max_num: int = setting("defaultQueryMaxNum", 32, "Most messages in the answer to a look-up by unique key.", minimum=1, maximum=1024, runtime=True)

    # Transactions
    reject_transaction_message: bool = setting("rejectTransactionMessage", False, "Refuse the half messages of transactions.", runtime=True)
    transaction_timeout_ms: int = setting("transactionTimeOut", 6000, "ms after a half message is stored before its producers are asked (a message may ask for more).", minimum=0, maximum=86_400_000, runtime=True)
    transaction_check_max: int = setting("transactionCheckMax", 15, "Times the producers are asked about a transaction before it goes to TRANS_CHECK_MAX_TIME_TOPIC.", minimum=0, maximum=1_000_000, runtime=True)
    transaction_check_interval_ms: int = setting("transactionCheckInterval", 30_000, "ms between rounds of such questions.", minimum=100, maximum=86_400_000, runtime=True)
    transaction_op_size_max_bytes: int = setting("transactionOpMsgMaxSize", 4096, "Most bytes of one record that names ended transactions.", minimum=32, maximum=MIB, runtime=True, is_size=True)
    open_transaction_count_max: int = setting("maxOpenTransactions", 200_000, "Most open transactions; beyond, half messages are refused.", minimum=1, maximum=100_000_000, runtime=True)

    # Serving
    long_polling_enable: bool = setting("longPollingEnable", True, "Hold a pull until a message arrives.", runtime=True)
    short_polling_time_ms: int = setting("shortPollingTimeMills", 1000, "ms a pull is held when long polling is off.", minimum=10, maximum=30_000, runtime=True)
    enable_property_filter: bool = setting("enablePropertyFilter", True, "Serve SQL92 expressions over message properties (RocketMQ's default is false).", runtime=True)
    notify_consumer_ids_changed_enable: bool = setting("notifyConsumerIdsChangedEnable", True, "Tell consumers when their group changes.", runtime=True)
    use_server_side_reset_offset: bool = setting("useServerSideResetOffset", True, "Reset offsets in the broker rather than through the clients.", runtime=True)
    max_transfer_bytes: int = setting("maxTransferBytesOnMessageInMemory", 262_144, "Most bytes of messages in one pull answer (the first message is always sent).", minimum=1024, maximum=15 * MIB, runtime=True, is_size=True)
    max_transfer_count: int = setting("maxTransferCountOnMessageInMemory", 32, "Most messages in one pull answer. PyMQ's readers of many messages get up to 1024.", minimum=1, maximum=1024, runtime=True)
    topic_message_type_check: bool = setting("enableTopicMessageTypeCheck", False, "Refuse sends over remoting of another type than their topic's `message.type`. gRPC sends are always checked. RocketMQ's proxies have this key, its brokers check nothing.")
    register_period_ms: int = setting("registerNameServerPeriod", 30_000, "ms between registrations at the name servers.", minimum=10_000, maximum=60_000, runtime=True)
    register_timeout_ms: int = setting("registerBrokerTimeoutMills", 3000, "ms a registration may take.", minimum=100, maximum=60_000, runtime=True)
    channel_expiry_ms: int = setting("channelExpiredTimeout", 120_000, "ms after the last heartbeat until a client is forgotten.", minimum=10_000, maximum=3_600_000, runtime=True)
    lease_time_ms: int = setting("rebalanceLockTime", 60_000, "ms that an ordered consumer's lock on a queue lasts.", minimum=1000, maximum=3_600_000, runtime=True)

    # Pop consumption
    revive_queue_num: int = setting("reviveQueueNum", 8, "Queues of the topic of check points and acknowledgements.", minimum=1, maximum=64)
    enable_retry_topic_v2: bool = setting("enableRetryTopicV2", True, "Name retry topics of pops `%RETRY%group+topic` rather than `%RETRY%group_topic`, which two pairs of names may share; both are read.", runtime=True)
    pop_from_retry_probability: int = setting("popFromRetryProbability", 20, "Percent of pops that look for retries first, the others last.", minimum=0, maximum=100, runtime=True)
    pop_from_retry_probability_for_priority: int = setting("popFromRetryProbabilityForPriority", 0, "Percent of pops by priority that look for retries first, the others last.", minimum=0, maximum=100, runtime=True)
    priority_order_asc: bool = setting("priorityOrderAsc", True, "A larger number is a higher priority; false: 0 is the highest.", runtime=True)
    use_separate_retry_queue: bool = setting("useSeparateRetryQueue", False, "Retry topics of pops have the queues of their topic, so that a retry keeps its priority.", runtime=True)
    pop_polling_size: int = setting("popPollingSize", 1024, "Most pops of one group that wait for one queue of a topic, or for any.", minimum=0, maximum=1_000_000, runtime=True)
    max_pop_polling_size: int = setting("maxPopPollingSize", 100_000, "Most pops that wait at once.", minimum=0, maximum=10_000_000, runtime=True)

    # Metrics
    metrics_prom_exporter_host: str = setting("metricsPromExporterHost", "", "Address to serve metrics on; empty: brokerIP1.")
    metrics_prom_exporter_port: int = setting("metricsPromExporterPort", 5557, "Port to serve metrics on; 0 takes any free port.", minimum=0, maximum=65535)
    metrics_series_max: int = setting("metricsOtelCardinalityLimit", 100_000, "Most series of one metric (RocketMQ: 50000); the oldest ones stay.", minimum=100, maximum=1_000_000, runtime=True)

    # Security
    authentication_enabled: bool = setting("authenticationEnabled", False, "Check the signature of each request, by users that operators make (`pymq auth user`, mqadmin); without authorizationEnabled on loopback alone.")
    migrate_auth_from_v1: bool = setting("migrateAuthFromV1Enabled", False, "At a start, make users of the accounts of plainAclFile, and of the files below the folder `acl` beside it, that are not users yet.")
    audit_log_dir: str = setting("auditLogDir", "", "Directory of the audit log, a JSON line for each change by an operator and each refusal; empty: `audit` in storePathRootDir when requests are checked, else none.")

    # Limits: each one stops a way to exhaust the broker
    batch_count_max: int = setting("maxBatchNums", 32_767, "Most messages in one batch.", minimum=1, maximum=32_767, runtime=True)
    parked_pull_count_max: int = setting("parkedPullCountMax", 100_000, "Most pulls held at once.", minimum=0, maximum=10_000_000)
    topic_count_max: int = setting("maxTopics", 10_000, "Most topics; retry and dead-letter topics have a limit of their own, twice `maxGroups`.", minimum=20, maximum=1_000_000, runtime=True)
    group_count_max: int = setting("maxGroups", 10_000, "Most consumer groups.", minimum=20, maximum=1_000_000, runtime=True)
    user_topic_count_max: int = setting("userTopicCountMax", 0, "Most topics that a user of a secured broker makes, of those that are still there; 0: no limit. Administrators have none. What was made without a limit does not count.", minimum=0, maximum=1_000_000)
    user_group_count_max: int = setting("userGroupCountMax", 0, "Most consumer groups that a user makes, counted in the same way; 0: no limit.", minimum=0, maximum=1_000_000)
    offset_count_max: int = setting("maxConsumerOffsets", 1_000_000, "Most committed offsets: queues of all groups together.", minimum=1000, maximum=100_000_000, runtime=True)
    groups_per_client_max: int = setting("maxGroupsPerClient", 256, "Most groups one heartbeat may name.", minimum=1, maximum=65_536, runtime=True)
    subscriptions_per_group_max: int = setting("maxSubscriptionsPerGroup", 1024, "Most topics that a group may subscribe to.", minimum=1, maximum=65_536, runtime=True)
    strict_offsets: bool = setting("strictOffsets", False, "Refuse to move a committed offset back (code 29), except by a reset.", runtime=True)

    # fmt: on
    IGNORED: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(BROKER_KEYS, NO_EFFECT),
        **dict.fromkeys(
            """sendMessageThreadPoolNums pullMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
            clientManageThreadPoolNums consumerManageThreadPoolNums heartbeatThreadPoolNums endTransactionThreadPoolNums
            processReplyMessageThreadPoolNums sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity
            queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity serverWorkerThreads serverSelectorThreads
            serverCallbackExecutorThreads serverOnewaySemaphoreValue serverAsyncSemaphoreValue
            useReentrantLockWhenPutMessage waitTimeMillsInSendQueue waitTimeMillsInPullQueue
            brokerFastFailureEnable osPageCacheBusyTimeOutMills transientStorePoolEnable transientStorePoolSize
            warmMapedFileEnable""".split(),
            _THREADS,
        ),
        **dict.fromkeys(
            """totalReplicas enableControllerMode
            controllerAddr enableSlaveActingMaster traceOn storePathCommitLog rocketmqHome filterServerNums
            enableCompaction storeType checkCRCOnRecover""".split(),
            _LATER,
        ),
        **dict.fromkeys(
            """metricsGrpcExporterTarget metricsGrpcExporterHeader metricGrpcExporterTimeOutInMills
            metricGrpcExporterIntervalInMills metricLoggingExporterIntervalInMills metricsInDelta""".split(),
            _PROMETHEUS_ALONE,
        ),
        **dict.fromkeys(
            """authenticationProvider authorizationProvider authenticationMetadataProvider authorizationMetadataProvider
            authenticationStrategy authorizationStrategy""".split(),
            _CHECKED_ALWAYS,
        ),
        **dict.fromkeys(("batchDeleteTopicMaxRate", "batchDeleteSubscriptionGroupMaxRate"), _DELETED_AT_ONCE),
    }

    FIXED: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("brokerName", "brokerClusterName", "brokerId"), "other brokers and clients know it by that"),
        **dict.fromkeys(("bindAddress", "listenPort", "haListenPort", "fastListenPort"), "it listens there"),
        **dict.fromkeys(("brokerIP1", "brokerIP2"), "message ids and other servers' memory of this broker contain it"),
        **dict.fromkeys((RAFT_KEY, GROUP_KEY, PEERS_KEY, SELF_KEY, PREFERRED_KEY), "its Raft group knows it by that"),
        "storePathRootDir": "its files are open there",
        **dict.fromkeys(
            """namesrvAddr fetchNamesrvAddrByAddressServer rmqAddressServerDomain rmqAddressServerSubGroup
            fetchNameSrvAddrByDnsLookup""".split(),
            "a broker trusts its name servers, so only its files and flags name them",
        ),
        **dict.fromkeys(
            """mappedFileSizeCommitLog mappedFileSizeConsumeQueue mapperFileSizeBatchConsumeQueue maxHashSlotNum
            maxIndexNum mappedFileSizeTimerLog timerPrecisionMs timerRollWindowSlot""".split(),
            "its files are laid out by it",
        ),
        **dict.fromkeys(("messageIndexEnable", "blockDigestEnable"), "its files are open, or are not there"),
        "messageDelayLevel": "messages that wait are filed by it",
        "reviveQueueNum": "acknowledgements that wait are filed by it",
        "frameSizeBytesMax": "each connection is opened with it",
        **dict.fromkeys(
            ("metricsExporterType", "metricsPromExporterHost", "metricsPromExporterPort", "metricsLabel"),
            "its metrics are served so since the start",
        ),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        # What an address server, or the look-up of names, found last; None: the configured addresses count.
        self.found_namesrv_addresses: list[str] | None = None

    def check(self) -> None:
        check_replication(self)
        check_security(self)
        self._check_migration()
        floor = LOG_SEGMENTS_MIN * self.mapped_file_size_commit_log_bytes
        if 0 < self.commit_log_bytes_max < floor:
            raise ConfigError(
                f"commitLogBytesMax={self.commit_log_bytes_max} would delete nearly the whole log: the least is {floor} "
                f"({LOG_SEGMENTS_MIN} segments of mappedFileSizeCommitLog), 0 is no limit"
            )

    def _check_migration(self) -> None:
        if self.migrate_auth_from_v1 and not has_users(self):
            raise ConfigError(
                "migrateAuthFromV1Enabled=true makes users of an ACL file's accounts, and this broker has no users: set "
                "authenticationEnabled=true and authorizationEnabled=true, and leave aclEnable out"
            )
        if self.migrate_auth_from_v1 and not self.plain_acl_file:
            raise ConfigError(
                "migrateAuthFromV1Enabled=true needs the file of accounts: set plainAclFile=PATH/plain_acl.yml"
            )

    @property
    def auth_file(self) -> str:
        """The broker's own file of users and policies."""
        return f"{self.store_path_root_dir}/config/{AUTH_FILE_NAME}"

    @property
    def is_slave(self) -> bool:
        return self.broker_id != 0

    @property
    def namesrv_places(self) -> list[str]:
        """The name servers as they are configured: "host:port" texts, and URLs of address servers."""
        if self.fetch_from_address_server and self.origin("namesrvAddr") == ORIGIN_DEFAULT:
            domain = self.address_server_domain
            return [
                f"{ADDRESS_SERVER_PREFIX}{domain if ':' in domain else f'{domain}:8080'}/rocketmq/{self.address_server_group}"
            ]
        return split_name_servers(self.namesrv_addr)

    @property
    def namesrv_addresses(self) -> list[str]:
        """The addresses of the name servers; with an address server, those that it named last."""
        if self.found_namesrv_addresses is not None:
            return self.found_namesrv_addresses
        return [place for place in self.namesrv_places if not place.startswith(ADDRESS_SERVER_PREFIX)]

    @property
    def ha_slave_host_list(self) -> list[str]:
        """The hosts that the operator named for slaves, and the one of ``haMasterAddress``."""
        named = [*self.ha_slave_hosts.split(";"), self.ha_master_address.rpartition(":")[0].strip("[]")]
        return [part.strip() for part in named if part.strip()]

    @property
    def ha_unproven_master_host_list(self) -> list[str]:
        """The hosts of masters that need not prove to have the servers' credentials."""
        return [part.strip() for part in self.ha_unproven_master_hosts.split(";") if part.strip()]

    @property
    def ha_unproven_slave_host_list(self) -> list[str]:
        """The hosts of slaves that need not prove to have the servers' credentials."""
        return [part.strip() for part in self.ha_unproven_slave_hosts.split(";") if part.strip()]

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the day in which old segments are deleted."""
        return frozenset(int(hour) for hour in self.delete_when.split(";") if hour)

    @property
    def delay_level_ms(self) -> dict[int, int]:
        """Delay level (1, 2, …) -> its delay in ms."""
        return dict(enumerate(parse_delay_levels_ms(self.message_delay_level), start=1))


def parse_delay_levels_ms(text: str) -> list[int]:
    """Return the delays of ``"1s 5s 2h"``: [1000, 5000, 7200000]. Raises UsageError for a level that is no duration."""
    return [parse_duration_ms(part) for part in text.split()]
