"""The subcommands of mqadmin 5.3.3, and how those are refused that ask for what PyMQ lacks."""

from __future__ import annotations

from typing import Final, NamedTuple

from pymq.broker.handlers.refused import REFUSED_CODES
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import request_name

# In mqadmin's order. A test compares them with the jar.
_NAMES = """\
updateTopic updateTopicList deleteTopic updateSubGroup updateSubGroupList setConsumeMode deleteSubGroup
updateBrokerConfig updateTopicPerm topicRoute topicStatus topicClusterList addBroker removeBroker
resetMasterFlushOffset brokerStatus queryMsgById queryMsgByKey queryMsgByUniqueKey queryMsgByOffset
queryMsgTraceById printMsg printMsgByQueue sendMsgStatus brokerConsumeStats producerConnection
consumerConnection consumerProgress consumerStatus cloneGroupOffset producer clusterList topicList
updateKvConfig deleteKvConfig wipeWritePerm addWritePerm resetOffsetByTime skipAccumulatedMessage
updateOrderConf cleanExpiredCQ deleteExpiredCommitLog cleanUnusedTopic startMonitoring statsAll allocateMQ
checkMsgSendRT clusterRT getNamesrvConfig updateNamesrvConfig getBrokerConfig getConsumerConfig queryCq
sendMessage consumeMessage updateStaticTopic remappingStaticTopic exportMetadata exportConfigs exportMetrics
exportMetadataInRocksDB exportPopRecord haStatus getSyncStateSet getBrokerEpoch getControllerMetaData
getControllerConfig updateControllerConfig electMaster cleanBrokerMetadata dumpCompactionLog
getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig
setCommitLogReadAheadMode createUser updateUser deleteUser getUser listUser copyUser createAcl updateAcl
deleteAcl getAcl listAcl copyAcl rocksDBConfigToJson checkRocksdbCqWriteProgress
"""
SUBCOMMANDS: Final = tuple(_NAMES.split())

# The server kinds, as their refusals name them.
BROKER: Final = "broker"
NAME_SERVER: Final = "name server"


class Refused(NamedTuple):
    """The words after a subcommand's name. `$b`, `$n`, `$name` and `$c` stand for the broker's address, the name
    server's, the broker's name and its cluster."""

    code: int
    words: str
    server: str = BROKER

    @property
    def reason(self) -> str:
        return REFUSED_CODES[self.code]

    @property
    def remark(self) -> str:
        """What the server answers, and mqadmin prints."""
        return (
            f"request type {self.code} not supported by this {self.server} ({request_name(self.code)}): {self.reason}"
        )


REFUSED: Final[dict[str, Refused]] = {
    "updateStaticTopic": Refused(Code.UPDATE_AND_CREATE_STATIC_TOPIC, "-b $name -t adm-static -qn 4"),
    "addBroker": Refused(Code.ADD_BROKER, "-c $b -b /tmp/broker.conf"),
    "removeBroker": Refused(Code.REMOVE_BROKER, "-c $b -b $c:$name:1"),
    "resetMasterFlushOffset": Refused(Code.RESET_MASTER_FLUSH_OFFSET, "-b $b -o 0"),
    "exportPopRecord": Refused(Code.POP_ROLLBACK, "-b $b"),
    "rocksDBConfigToJson": Refused(Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, "-b $b -t topics"),
    "checkRocksdbCqWriteProgress": Refused(Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, "-n $n -c $c"),
    # RocketMQ's controller may run inside a name server.
    "getControllerMetaData": Refused(Code.CONTROLLER_GET_METADATA_INFO, "-a $n", NAME_SERVER),
    "getSyncStateSet": Refused(Code.CONTROLLER_GET_METADATA_INFO, "-a $b -b $name"),
    "electMaster": Refused(Code.CONTROLLER_GET_METADATA_INFO, "-a $n -b 1 -bn $name -c $c", NAME_SERVER),
    "cleanBrokerMetadata": Refused(Code.CONTROLLER_GET_METADATA_INFO, "-a $n -b 1 -bn $name -c $c", NAME_SERVER),
    "getControllerConfig": Refused(Code.GET_CONTROLLER_CONFIG, "-a $n", NAME_SERVER),
    "updateControllerConfig": Refused(Code.UPDATE_CONTROLLER_CONFIG, "-a $n -k color -v red", NAME_SERVER),
    "getColdDataFlowCtrInfo": Refused(Code.GET_COLD_DATA_FLOW_CTR_INFO, "-b $b"),
    "updateColdDataFlowCtrGroupConfig": Refused(Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "-b $b -g adm-cold -v 1024"),
    "removeColdDataFlowCtrGroupConfig": Refused(Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "-b $b -g adm-cold"),
    "setCommitLogReadAheadMode": Refused(Code.SET_COMMITLOG_READ_MODE, "-b $b -m 1"),
}
