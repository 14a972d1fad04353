// The cells of Kafka's own Java client, and a word count of Kafka Streams with exactly
// once: java Cells.java clients|streams BOOTSTRAP PREFIX. One line on the standard
// output for each cell: client, feature, pass or fail, why.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

public class Cells {
  static final int COUNT = 300;
  static String bootstrap, prefix, client;
  static Admin admin;

  interface Body {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    bootstrap = args[1];
    prefix = args[2];
    admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    if (args[0].equals("streams")) {
      client = "Kafka Streams";
      cell("exactly_once_v2", () -> wordCount("exactly_once_v2"));
      cell("at_least_once", () -> wordCount("at_least_once"));
    } else {
      client = "kafka-clients";
      clients();
    }
    admin.close(Duration.ofSeconds(2));
    System.exit(0);
  }

  static void clients() {
    cell("produce", () -> produce(topic("plain", 1), records("plain", 0), Map.of()));
    cell("consume", () -> readBack("plain"));
    for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
      cell(codec, () -> {
        produce(topic(codec, 1), records(codec, 0), Map.of("compression.type", codec, "linger.ms", "200"));
        readBack(codec);
      });
    }
    cell("group", () -> group("group", Map.of()));
    cell("members", () -> members());
    cell("admin", () -> administer());
    cell("delete-records", () -> deleteRecords());
    cell("idempotent", () -> {
      produce(topic("idempotent", 1), records("idempotent", 0), Map.of("enable.idempotence", "true"));
      readBack("idempotent");
    });
    cell("headers", () -> headers());
    cell("times", () -> times());
    cell("transactions", () -> transactions());
    cell("kip-848", () -> group("next", Map.of("group.protocol", "consumer")));
  }

  static void cell(String feature, Body body) {
    String status = "pass", note = "";
    ExecutorService one = Executors.newSingleThreadExecutor(task -> {
      Thread thread = new Thread(task);
      thread.setDaemon(true);
      return thread;
    });
    try {
      one.submit(() -> {
        body.run();
        return null;
      }).get(90, TimeUnit.SECONDS);
    } catch (Throwable fault) {
      Throwable cause = fault instanceof ExecutionException ? fault.getCause() : fault;
      while (cause instanceof ExecutionException && cause.getCause() != null) cause = cause.getCause();
      fault.printStackTrace();
      status = "fail";
      note = cause.getClass().getSimpleName() + ": " + cause.getMessage();
      if (cause.getCause() != null) note += ", since " + cause.getCause().getMessage();
    }
    one.shutdownNow();
    System.out.println(String.join("\t", client, feature, status, note.replaceAll("\\s+", " ")));
  }

  static void check(Object got, Object want, String what) {
    if (!Objects.equals(got, want)) throw new IllegalStateException(what + ": got " + got + ", want " + want);
  }

  static List<String> values() {
    return IntStream.range(0, COUNT).mapToObj(i -> ("value " + i + " ").repeat(20)).toList();
  }

  static String topic(String name, int partitions) throws Exception {
    String full = prefix + "-" + name;
    admin.createTopics(List.of(new NewTopic(full, partitions, (short) 1))).all().get(20, TimeUnit.SECONDS);
    return full;
  }

  static List<ProducerRecord<String, String>> records(String name, int keys) {
    List<ProducerRecord<String, String>> all = new ArrayList<>();
    for (String value : values()) {
      all.add(new ProducerRecord<>(prefix + "-" + name, keys == 0 ? null : "k" + all.size() % keys, value));
    }
    return all;
  }

  static Producer<String, String> producer(Map<String, String> more) {
    Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "max.block.ms", "15000",
        "delivery.timeout.ms", "30000", "request.timeout.ms", "10000", "linger.ms", "20"));
    config.putAll(more);
    return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
  }

  static void produce(String topic, List<ProducerRecord<String, String>> all, Map<String, String> config) throws Exception {
    try (Producer<String, String> producer = producer(config)) {
      List<Future<RecordMetadata>> sent = all.stream().map(producer::send).toList();
      for (Future<RecordMetadata> one : sent) one.get(30, TimeUnit.SECONDS);
    }
  }

  static Consumer<String, String> consumer(Map<String, String> more) {
    Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest",
        "enable.auto.commit", "false", "default.api.timeout.ms", "20000"));
    config.putAll(more);
    return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
  }

  static List<ConsumerRecord<String, String>> read(Consumer<String, String> consumer, int count, int seconds) {
    List<ConsumerRecord<String, String>> got = new ArrayList<>();
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    while (got.size() < count && System.nanoTime() < end) {
      consumer.poll(Duration.ofMillis(200)).forEach(got::add);
    }
    return got;
  }

  static List<ConsumerRecord<String, String>> readAll(String topic, int count, Map<String, String> config) {
    try (Consumer<String, String> consumer = consumer(config)) {
      TopicPartition partition = new TopicPartition(topic, 0);
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      return read(consumer, count, 20);
    }
  }

  static void readBack(String name) {
    List<ConsumerRecord<String, String>> got = readAll(prefix + "-" + name, COUNT, Map.of());
    check(got.stream().map(ConsumerRecord::value).toList(), values(), "values");
    check(got.get(COUNT - 1).offset(), COUNT - 1L, "last offset");
  }

  static void group(String name, Map<String, String> more) throws Exception {
    String topic = topic(name, 3);
    produce(topic, records(name, 50), Map.of());
    Map<String, String> config = new HashMap<>(Map.of("group.id", topic, "max.poll.records", "50"));
    config.putAll(more);
    List<String> got = new ArrayList<>();
    for (int life = 0; life < 2; life++) {
      try (Consumer<String, String> consumer = consumer(config)) {
        consumer.subscribe(List.of(topic));
        read(consumer, life == 0 ? COUNT / 2 : COUNT - got.size(), 20).forEach(record -> got.add(record.value()));
        if (life == 1) check(read(consumer, 1, 1).size(), 0, "records read twice");
        consumer.commitSync();
      }
    }
    check(got.stream().sorted().toList(), values().stream().sorted().toList(), "values");
  }

  static void members() throws Exception {
    String topic = topic("members", 4);
    Map<String, String> config = Map.of("group.id", topic, "session.timeout.ms", "6000", "heartbeat.interval.ms", "500",
        "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    Consumer<String, String> one = consumer(config), two = consumer(config);
    one.subscribe(List.of(topic));
    two.subscribe(List.of(topic));
    settle(List.of(one, two), List.of(2, 2));
    two.close();
    settle(List.of(one), List.of(4));
    one.close();
  }

  static void settle(List<Consumer<String, String>> members, List<Integer> want) {
    long end = System.nanoTime() + 40_000_000_000L;
    List<Integer> held = List.of();
    while (System.nanoTime() < end) {
      members.forEach(member -> member.poll(Duration.ofMillis(50)));
      held = members.stream().map(member -> member.assignment().size()).toList();
      if (held.equals(want)) return;
    }
    check(held, want, "assignment");
  }

  /** Waits until every node has heard of a change: who is asked next need not be who has made it. */
  static void heard() throws InterruptedException {
    if (Integer.parseInt(System.getenv().getOrDefault("NODES", "1")) > 1) Thread.sleep(100);
  }

  static void administer() throws Exception {
    String topic = topic("admin", 2);
    check(admin.listTopics().names().get().contains(topic), true, "topic listed");
    admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
    heard();
    check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size(), 5, "partitions");
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    admin.incrementalAlterConfigs(Map.of(resource, List.of(
        new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET)))).all().get();
    heard();
    check(admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value(), "3600000", "retention.ms");
    ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, admin.describeCluster().nodes().get().iterator().next().idString());
    check(admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().isEmpty(), false, "no broker configs");
    String group = prefix + "-group";
    check(admin.listGroups().all().get().stream().anyMatch(listing -> listing.groupId().equals(group)), true, "group listed");
    check(admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString(), "Empty", "state");
    Map<TopicPartition, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    check(offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum(), (long) COUNT, "committed offsets");
    admin.alterConsumerGroupOffsets(group, Map.of(new TopicPartition(group, 0), new OffsetAndMetadata(1))).all().get();
    admin.deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(group, 1))).all().get();
    admin.deleteConsumerGroups(List.of(group)).all().get();
    admin.deleteTopics(List.of(topic)).all().get();
    heard();
    check(admin.listTopics().names().get().contains(topic), false, "deleted topic listed");
  }

  static void deleteRecords() throws Exception {
    String topic = topic("deleted", 1);
    produce(topic, records("deleted", 0), Map.of());
    TopicPartition partition = new TopicPartition(topic, 0);
    check(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(12))).lowWatermarks().get(partition).get().lowWatermark(), 12L, "low watermark");
    check(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get().get(partition).offset(), 12L, "earliest offset");
  }

  static void headers() throws Exception {
    String topic = topic("headers", 1);
    ProducerRecord<String, String> record = new ProducerRecord<>(topic, "v");
    List<RecordHeader> sent = List.of(new RecordHeader("a", "1".getBytes()), new RecordHeader("a", "2".getBytes()), new RecordHeader("null", null));
    sent.forEach(record.headers()::add);
    produce(topic, List.of(record), Map.of());
    check(List.of(readAll(topic, 1, Map.of()).get(0).headers().toArray()), sent, "headers");
  }

  static void times() throws Exception {
    String topic = topic("times", 1);
    long base = System.currentTimeMillis() - 100_000;
    produce(topic, IntStream.range(0, 10).mapToObj(i -> new ProducerRecord<String, String>(topic, 0, base + i * 1000, null, "v")).toList(), Map.of());
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Consumer<String, String> consumer = consumer(Map.of())) {
      check(consumer.offsetsForTimes(Map.of(partition, base + 3500)).get(partition).offset(), 4L, "offset by time");
    }
    check(admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).all().get().get(partition).offset(), 9L, "offset of the newest timestamp");
    check(readAll(topic, 10, Map.of()).get(4).timestamp(), base + 4000, "timestamp");
  }

  static void transactions() throws Exception {
    String topic = topic("transactions", 1);
    try (Producer<String, String> producer = producer(Map.of("transactional.id", topic))) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "aborted")).get();
      producer.abortTransaction();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, "committed"));
      producer.commitTransaction();
    }
    List<ConsumerRecord<String, String>> got = readAll(topic, 1, Map.of("isolation.level", "read_committed"));
    check(got.stream().map(ConsumerRecord::value).toList(), List.of("committed"), "read_committed");
  }

  static void wordCount(String guarantee) throws Exception {
    String in = topic("words-" + guarantee, 2), out = topic("counts-" + guarantee, 1);
    List<ProducerRecord<String, String>> lines = IntStream.range(0, COUNT)
        .mapToObj(i -> new ProducerRecord<String, String>(in, "k" + i, "alpha beta w" + i % 10)).toList();
    produce(in, lines, Map.of());
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(in, Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("counts")
            .withStoreType(Materialized.StoreType.IN_MEMORY))
        .toStream().mapValues(String::valueOf).to(out, Produced.with(Serdes.String(), Serdes.String()));
    Properties config = new Properties();
    config.putAll(Map.of("bootstrap.servers", bootstrap, "application.id", prefix + "-" + guarantee, "processing.guarantee", guarantee,
        "commit.interval.ms", "200", "state.dir", System.getProperty("java.io.tmpdir") + "/" + prefix, "auto.offset.reset", "earliest",
        "producer.max.block.ms", "15000"));
    CompletableFuture<Throwable> died = new CompletableFuture<>();
    try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
      streams.setUncaughtExceptionHandler(fault -> {
        died.complete(fault);
        return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
      });
      streams.start();
      Map<String, String> counts = new HashMap<>();
      try (Consumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
        consumer.assign(List.of(new TopicPartition(out, 0)));
        consumer.seekToBeginning(consumer.assignment());
        long end = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < end && !(counts.size() == 12 && counts.get("alpha").equals("" + COUNT) && counts.get("w7").equals("30"))) {
          if (died.isDone()) throw new IllegalStateException(died.get().getMessage(), rootOf(died.get()));
          consumer.poll(Duration.ofMillis(100)).forEach(record -> counts.put(record.key(), record.value()));
        }
      }
      check(counts.get("beta"), "" + COUNT, "count of beta");
      check(counts.get("w7"), "30", "count of w7");
    }
  }

  static Throwable rootOf(Throwable fault) {
    while (fault.getCause() != null) fault = fault.getCause();
    return fault;
  }
}
