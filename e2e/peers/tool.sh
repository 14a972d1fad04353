#!/bin/bash
# Kafka's own command line tools: tool.sh NAME ARGUMENTS…, as in bin/kafka-NAME.sh.
#
#   tool.sh topics --bootstrap-server 127.0.0.1:9092 --list
#
# A name with a dot is taken as a class. HEAP sets the heap in MB (default 256),
# LEVEL what is logged (default WARN).

source "$(dirname "${BASH_SOURCE[0]}")/jars.sh"

class() {
  case "$1" in
    topics) echo org.apache.kafka.tools.TopicCommand ;;
    configs) echo kafka.admin.ConfigCommand ;;
    consumer-groups) echo org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    console-producer) echo org.apache.kafka.tools.ConsoleProducer ;;
    console-consumer) echo org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    get-offsets) echo org.apache.kafka.tools.GetOffsetShell ;;
    delete-records) echo org.apache.kafka.tools.DeleteRecordsCommand ;;
    verifiable-producer) echo org.apache.kafka.tools.VerifiableProducer ;;
    verifiable-consumer) echo org.apache.kafka.tools.VerifiableConsumer ;;
    producer-perf-test) echo org.apache.kafka.tools.ProducerPerformance ;;
    consumer-perf-test) echo org.apache.kafka.tools.ConsumerPerformance ;;
    broker-api-versions) echo org.apache.kafka.tools.BrokerApiVersionsCommand ;;
    cluster) echo org.apache.kafka.tools.ClusterTool ;;
    transactions) echo org.apache.kafka.tools.TransactionsCommand ;;
    log-dirs) echo org.apache.kafka.tools.LogDirsCommand ;;
    metadata-quorum) echo org.apache.kafka.tools.MetadataQuorumCommand ;;
    leader-election) echo org.apache.kafka.tools.LeaderElectionCommand ;;
    reassign-partitions) echo org.apache.kafka.tools.reassign.ReassignPartitionsCommand ;;
    dump-log) echo org.apache.kafka.tools.DumpLogSegments ;;
    *.*) echo "$1" ;;
    *) die "unknown tool $1" ;;
  esac
}

[ $# -gt 0 ] || die "usage: tool.sh NAME ARGUMENTS…"
name=$(class "$1")
shift
get_jars kafka
kafka_java "${HEAP:-256}"
exec "${java[@]:0:1}" "-Dweir.log=${LEVEL:-WARN}" -XX:TieredStopAtLevel=1 "${java[@]:1}" "$name" "$@"
