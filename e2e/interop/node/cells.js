// The cells of kafkajs, which speaks only the protocol's older, not flexible versions:
// cells.js BOOTSTRAP PREFIX. One line on the standard output for each cell: client,
// feature, pass or fail, why.

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')
const assert = require('node:assert')

const [bootstrap, prefix] = process.argv.slice(2)
const COUNT = 300
const values = () => Array.from({ length: COUNT }, (_, i) => `value ${i} `.repeat(20))

const kafka = new Kafka({
  clientId: 'interop',
  brokers: [bootstrap],
  retry: { retries: 3 },
  logCreator: () => ({ level, log }) => level <= logLevel.WARN && console.error(log.message, log.error || ''),
})
const admin = kafka.admin()

// kafkajs itself has gzip only; the others come as codecs that are plugged in.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async ({ buffer }) => lz4.compressFrame(buffer), // its blocks are independent, as Kafka wants them
  decompress: async (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }) => Buffer.from(zstd.compress(buffer, 3)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
})

async function cell(feature, run) {
  let status = 'pass', note = ''
  try {
    note = (await limited(run())) || ''
  } catch (fault) {
    console.error(feature, fault)
    status = 'fail'
    note = `${fault.name}: ${fault.message}`
  }
  console.log(['kafkajs', feature, status, note.replace(/\s+/g, ' ')].join('\t'))
}

function limited(promise) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no end after 60 s')), 60000)
  })
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer))
}

async function topic(name, numPartitions = 1) {
  const full = `${prefix}-${name}`
  await admin.createTopics({ topics: [{ topic: full, numPartitions, replicationFactor: 1 }] })
  return full
}

async function produce(full, messages, compression = CompressionTypes.None, options = {}) {
  const producer = kafka.producer(options)
  await producer.connect()
  try {
    return await producer.send({ topic: full, acks: -1, compression, messages })
  } finally {
    await producer.disconnect()
  }
}

// read consumes as a member of a group until there are count messages, waits for more
// than that (rest ms), and commits what it has seen when it leaves.
async function read(full, count, { groupId = `${full}-read`, rest = 0, options = {} } = {}) {
  const consumer = kafka.consumer({ groupId, ...options })
  const got = []
  await consumer.connect()
  await consumer.subscribe({ topics: [full], fromBeginning: true })
  let done
  const enough = new Promise((resolve) => (done = resolve))
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      if (got.length >= count && rest === 0) return
      got.push({ partition, ...message })
      await consumer.commitOffsets([{ topic: full, partition, offset: String(Number(message.offset) + 1) }])
      if (got.length >= count) done()
    },
  })
  await enough
  if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest))
  await consumer.disconnect()
  return got
}

async function roundTrip(name, compression) {
  const full = await topic(name)
  await produce(full, values().map((value) => ({ value })), compression)
  const got = await read(full, COUNT)
  assert.deepStrictEqual(got.map((m) => m.value.toString()), values())
}

async function plain() {
  const full = await topic('plain')
  const answers = await produce(full, values().map((value, i) => ({ key: `k${i}`, value })))
  assert.strictEqual(answers[0].baseOffset, '0')
  const [{ high }] = await admin.fetchTopicOffsets(full)
  assert.strictEqual(high, String(COUNT))
}

async function consume() {
  const got = await read(`${prefix}-plain`, COUNT)
  assert.deepStrictEqual(got.map((m) => m.value.toString()), values())
  assert.strictEqual(got[7].key.toString(), 'k7')
  assert.strictEqual(got[7].offset, '7')
}

async function group() {
  const full = await topic('group', 3)
  await produce(full, values().map((value, i) => ({ key: `k${i}`, value })))
  const first = await read(full, COUNT / 2, { groupId: full })
  const second = await read(full, COUNT / 2, { groupId: full, rest: 2000 })
  assert.deepStrictEqual([...first, ...second].map((m) => m.value.toString()).sort(), values().sort())
}

// Two members share the partitions, and one takes over when the other leaves.
async function members() {
  const full = await topic('members', 4)
  const held = new Map()
  const join = async (name) => {
    const consumer = kafka.consumer({ groupId: full, sessionTimeout: 6000, heartbeatInterval: 500 })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => held.set(name, (payload.memberAssignment[full] || []).length))
    await consumer.connect()
    await consumer.subscribe({ topics: [full] })
    await consumer.run({ eachMessage: async () => {} })
    return consumer
  }
  const settle = async (want) => {
    for (let i = 0; i < 300; i++) {
      if (want.every((count, at) => held.get(at) === count)) return
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    assert.fail(`assignment: ${JSON.stringify([...held])}, want ${want}`)
  }
  const [one, two] = await Promise.all([join(0), join(1)])
  await settle([2, 2])
  await two.disconnect()
  held.delete(1)
  await settle([4])
  await one.disconnect()
}

// heard waits until every node has heard of a change: who is asked next need not be who has made it.
const heard = () => new Promise((done) => setTimeout(done, Number(process.env.NODES || 1) > 1 ? 100 : 0))

async function administer() {
  const full = await topic('admin', 2)
  assert((await admin.listTopics()).includes(full), 'topic listed')
  await admin.createPartitions({ topicPartitions: [{ topic: full, count: 5 }] })
  await heard()
  const { topics } = await admin.fetchTopicMetadata({ topics: [full] })
  assert.strictEqual(topics[0].partitions.length, 5)
  const resource = { type: ConfigResourceTypes.TOPIC, name: full }
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] })
  await heard()
  const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [resource] })
  assert.strictEqual(resources[0].configEntries.find((e) => e.configName === 'retention.ms').configValue, '3600000')
  const { groups } = await admin.listGroups()
  assert(groups.some((g) => g.groupId === `${prefix}-group`), 'group listed')
  const described = await admin.describeGroups([`${prefix}-group`])
  assert.strictEqual(described.groups[0].state, 'Empty')
  const [{ partitions }] = await admin.fetchOffsets({ groupId: `${prefix}-group`, topics: [`${prefix}-group`] })
  assert.strictEqual(partitions.reduce((sum, p) => sum + Number(p.offset), 0), COUNT)
  await admin.resetOffsets({ groupId: `${prefix}-group`, topic: `${prefix}-group`, earliest: true })
  await admin.deleteGroups([`${prefix}-group`])
  const cluster = await admin.describeCluster()
  assert.strictEqual(cluster.brokers.length, Number(process.env.NODES || 1))
  await admin.deleteTopics({ topics: [full] })
  await heard()
  assert(!(await admin.listTopics()).includes(full), 'deleted topic listed')
}

async function deleteRecords() {
  const full = await topic('deleted')
  await produce(full, values().slice(0, 20).map((value) => ({ value })))
  await admin.fetchTopicOffsets(full) // kafkajs looks for the leader before it asks where it is
  await admin.deleteTopicRecords({ topic: full, partitions: [{ partition: 0, offset: '12' }] })
  const [{ low }] = await admin.fetchTopicOffsets(full)
  assert.strictEqual(low, '12')
}

async function idempotent() {
  const full = await topic('idempotent')
  await produce(full, values().map((value) => ({ value })), CompressionTypes.None, { idempotent: true, maxInFlightRequests: 1 })
  const got = await read(full, COUNT)
  assert.deepStrictEqual(got.map((m) => m.value.toString()), values())
}

async function headers() {
  const full = await topic('headers')
  await produce(full, [{ value: 'v', headers: { a: ['1', '2'], empty: '' } }])
  const [message] = await read(full, 1)
  assert.deepStrictEqual(message.headers.a.map(String), ['1', '2'])
  assert.strictEqual(message.headers.empty.toString(), '')
}

async function times() {
  const full = await topic('times')
  const base = Date.now() - 100000
  await produce(full, Array.from({ length: 10 }, (_, i) => ({ value: 'v', timestamp: String(base + i * 1000) })))
  const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(full, base + 3500)
  assert.strictEqual(offset, '4')
  const got = await read(full, 10)
  assert.strictEqual(got[4].timestamp, String(base + 4000))
}

async function transactions() {
  const full = await topic('transactions')
  const producer = kafka.producer({ transactionalId: full, maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  try {
    const transaction = await producer.transaction()
    await transaction.send({ topic: full, messages: [{ value: 'committed' }] })
    await transaction.commit()
  } finally {
    await producer.disconnect()
  }
}

async function main() {
  await zstd.init()
  await admin.connect()
  await cell('produce', plain)
  await cell('consume', consume)
  await cell('gzip', () => roundTrip('gzip', CompressionTypes.GZIP))
  await cell('snappy', () => roundTrip('snappy', CompressionTypes.Snappy))
  await cell('lz4', () => roundTrip('lz4', CompressionTypes.LZ4))
  await cell('zstd', () => roundTrip('zstd', CompressionTypes.ZSTD))
  await cell('group', group)
  await cell('members', members)
  await cell('admin', administer)
  await cell('delete-records', deleteRecords)
  await cell('idempotent', idempotent)
  await cell('headers', headers)
  await cell('times', times)
  await cell('transactions', transactions)
  await admin.disconnect()
  process.exit(0)
}

main().catch((fault) => {
  console.error(fault)
  process.exit(1)
})
