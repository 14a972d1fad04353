package kafka

// roles is a set of Role.
type roles uint8

const (
	forProducer = roles(1 << Producer)
	forConsumer = roles(1 << Consumer)
	forAll      = roles(1<<Admin | 1<<Producer | 1<<Consumer)
)

// key is one setting of Java's clients and what becomes of it here.
type key struct {
	name   string
	roles  roles
	shared bool // connection or security: Overlay takes it from the process's own settings
	secret bool
	// apply honours or refuses the value; nil means that the key has no effect here.
	apply func(b *builder, name, value string)
	// note says why a key without apply has no effect; "" if nobody needs to know.
	note string
}

const (
	noteTuning   = "has no effect: the client sizes this itself"
	noteMetrics  = "has no effect: metrics are served on the console address"
	noteCaller   = "" // read by those that use the client, not by the client
	noteKerberos = "has no effect: Kerberos (GSSAPI) is not supported"
)

// keys returns the table of all settings. It is built on each call: configuration is
// read seldom, and there is no state to share.
func keys() []key {
	var all []key
	all = append(all, connectionKeys()...)
	all = append(all, securityKeys()...)
	all = append(all, producerKeys()...)
	return append(all, consumerKeys()...)
}

func connectionKeys() []key {
	table := []key{
		{name: "bootstrap.servers", apply: (*builder).bootstrapServers},
		{name: "bootstrap.controllers", apply: refuse("name brokers in bootstrap.servers")},
		{name: "client.dns.lookup"},
		{name: "connections.max.idle.ms", apply: (*builder).connectionsMaxIdle},
		{name: "metadata.max.age.ms", apply: (*builder).metadataMaxAge},
		{name: "metadata.max.idle.ms", note: noteTuning},
		{name: "metadata.recovery.strategy"},
		{name: "metadata.recovery.rebootstrap.trigger.ms"},
		{name: "reconnect.backoff.ms", note: noteTuning},
		{name: "reconnect.backoff.max.ms", note: noteTuning},
		{name: "retry.backoff.ms", apply: (*builder).retryBackoff},
		{name: "retry.backoff.max.ms", apply: (*builder).retryBackoff},
		{name: "request.timeout.ms", apply: (*builder).requestTimeout},
		{name: "default.api.timeout.ms", note: "has no effect: each call is bounded by its own deadline"},
		{name: "send.buffer.bytes", note: noteTuning},
		{name: "receive.buffer.bytes", note: noteTuning},
		{name: "socket.connection.setup.timeout.ms", apply: (*builder).dialTimeout},
		{name: "socket.connection.setup.timeout.max.ms", note: noteTuning},
		{name: "metric.reporters", note: noteMetrics},
		{name: "metrics.num.samples", note: noteMetrics},
		{name: "metrics.sample.window.ms", note: noteMetrics},
		{name: "metrics.recording.level", note: noteMetrics},
		{name: "auto.include.jmx.reporter", note: noteMetrics},
		{name: "enable.metrics.push", apply: (*builder).metricsPush},
		{name: "config.providers"},
	}
	for i := range table {
		table[i].roles, table[i].shared = forAll, true
	}
	return append(table,
		key{name: "client.id", roles: forAll, apply: (*builder).clientID},
		key{name: "retries", roles: forAll, apply: (*builder).retries},
	)
}

func securityKeys() []key {
	const noteJVM = "has no effect: TLS is Go's own"
	const noteLogin = "has no effect: tokens and credentials are sent as they are configured"
	table := []key{
		{name: "security.protocol", apply: (*builder).securityProtocol},
		{name: "security.providers", note: noteJVM},
		{name: "ssl.protocol", note: noteJVM},
		{name: "ssl.provider", note: noteJVM},
		{name: "ssl.enabled.protocols"},
		{name: "ssl.cipher.suites"},
		{name: "ssl.keymanager.algorithm", note: noteJVM},
		{name: "ssl.trustmanager.algorithm", note: noteJVM},
		{name: "ssl.secure.random.implementation", note: noteJVM},
		{name: "ssl.engine.factory.class", apply: refuse("use ssl.truststore.* and ssl.keystore.*")},
		{name: "ssl.endpoint.identification.algorithm"},
		{name: "ssl.truststore.type"},
		{name: "ssl.truststore.location"},
		{name: "ssl.truststore.password", secret: true},
		{name: "ssl.truststore.certificates"},
		{name: "ssl.keystore.type"},
		{name: "ssl.keystore.location"},
		{name: "ssl.keystore.password", secret: true},
		{name: "ssl.keystore.key", secret: true},
		{name: "ssl.keystore.certificate.chain"},
		{name: "ssl.key.password", secret: true},
		{name: "sasl.mechanism"},
		{name: "sasl.jaas.config", secret: true},
		{name: "sasl.client.callback.handler.class"},
		{name: "sasl.login.callback.handler.class"},
		{name: "sasl.login.class", apply: refuse("use sasl.jaas.config")},
		{name: "sasl.kerberos.service.name", note: noteKerberos},
		{name: "sasl.kerberos.kinit.cmd", note: noteKerberos},
		{name: "sasl.kerberos.min.time.before.relogin", note: noteKerberos},
		{name: "sasl.kerberos.ticket.renew.jitter", note: noteKerberos},
		{name: "sasl.kerberos.ticket.renew.window.factor", note: noteKerberos},
		{name: "sasl.login.refresh.buffer.seconds", note: noteLogin},
		{name: "sasl.login.refresh.min.period.seconds", note: noteLogin},
		{name: "sasl.login.refresh.window.factor", note: noteLogin},
		{name: "sasl.login.refresh.window.jitter", note: noteLogin},
		{name: "sasl.login.connect.timeout.ms"},
		{name: "sasl.login.read.timeout.ms"},
		{name: "sasl.login.retry.backoff.ms", note: noteLogin},
		{name: "sasl.login.retry.backoff.max.ms", note: noteLogin},
		{name: "sasl.oauthbearer.token.endpoint.url"},
		{name: "sasl.oauthbearer.scope.claim.name", note: noteLogin},
		{name: "sasl.oauthbearer.sub.claim.name", note: noteLogin},
	}
	for i := range table {
		table[i].roles, table[i].shared = forAll, true
	}
	return table
}

func producerKeys() []key {
	table := []key{
		{name: "acks", apply: (*builder).acks},
		{name: "enable.idempotence", apply: (*builder).idempotence},
		{name: "compression.type", apply: (*builder).compression},
		{name: "compression.gzip.level"},
		{name: "compression.lz4.level"},
		{name: "compression.zstd.level"},
		{name: "batch.size", apply: (*builder).batchSize},
		{name: "buffer.memory", apply: (*builder).bufferMemory},
		{name: "linger.ms", apply: (*builder).linger},
		{name: "delivery.timeout.ms", apply: (*builder).deliveryTimeout},
		{name: "max.block.ms", note: "has no effect: a full buffer waits for the caller's deadline"},
		{name: "max.in.flight.requests.per.connection", apply: (*builder).maxInFlight},
		{name: "max.request.size", apply: (*builder).maxRequestSize},
		{name: "partitioner.class", apply: (*builder).partitioner},
		{name: "partitioner.ignore.keys"},
		{name: "partitioner.adaptive.partitioning.enable"},
		{name: "partitioner.availability.timeout.ms"},
		{name: "transactional.id", apply: (*builder).transactionalID},
		{name: "transaction.timeout.ms", apply: (*builder).transactionTimeout},
		{name: "transaction.two.phase.commit.enable", apply: refuseTrue("leave it false")},
		{name: "interceptor.classes", roles: forConsumer, apply: refuse("use a transform instead")},
		{name: "key.serializer", apply: (*builder).serializer},
		{name: "value.serializer", apply: (*builder).serializer},
	}
	for i := range table {
		table[i].roles |= forProducer
	}
	return table
}

func consumerKeys() []key {
	return []key{
		{name: "auto.offset.reset", roles: forConsumer, apply: (*builder).autoOffsetReset},
		{name: "isolation.level", roles: forConsumer, apply: (*builder).isolationLevel},
		{name: "fetch.min.bytes", roles: forConsumer, apply: (*builder).fetchMinBytes},
		{name: "fetch.max.bytes", roles: forConsumer, apply: (*builder).fetchMaxBytes},
		{name: "fetch.max.wait.ms", roles: forConsumer, apply: (*builder).fetchMaxWait},
		{name: "max.partition.fetch.bytes", roles: forConsumer, apply: (*builder).maxPartitionFetchBytes},
		{name: "max.poll.records", roles: forConsumer, note: noteCaller},
		{name: "check.crcs", roles: forConsumer, apply: (*builder).checkCRCs},
		{name: "client.rack", roles: forConsumer | forProducer, apply: (*builder).rack},
		{name: "allow.auto.create.topics", roles: forConsumer, apply: (*builder).autoCreateTopics},
		{name: "exclude.internal.topics", roles: forConsumer},
		{name: "group.id", roles: forConsumer},
		{name: "group.instance.id", roles: forConsumer},
		{name: "group.protocol", roles: forConsumer},
		{name: "group.remote.assignor", roles: forConsumer, note: "has no effect: the broker's own assignor is used"},
		{name: "session.timeout.ms", roles: forConsumer},
		{name: "heartbeat.interval.ms", roles: forConsumer},
		{name: "max.poll.interval.ms", roles: forConsumer},
		{name: "partition.assignment.strategy", roles: forConsumer},
		{name: "enable.auto.commit", roles: forConsumer},
		{name: "auto.commit.interval.ms", roles: forConsumer},
		{name: "share.acknowledgement.mode", roles: forConsumer, apply: refuse("share groups are not supported")},
		{name: "share.acquire.mode", roles: forConsumer, apply: refuse("share groups are not supported")},
		{name: "key.deserializer", roles: forConsumer, apply: (*builder).serializer},
		{name: "value.deserializer", roles: forConsumer, apply: (*builder).serializer},
	}
}
