package meta

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// commandVersion is the newest encoding that this code writes and reads. A log with a newer one is refused: a command
// must not be half understood.
const commandVersion = 1

// ErrVersion is an entry that a newer weir wrote, or that none wrote.
var ErrVersion = errors.New("metadata command can't be understood")

// ID is a topic id.
type ID [16]byte

// MarshalText and UnmarshalText make an ID 32 hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (id *ID) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(id) || len(text)%2 != 0 {
		return fmt.Errorf("topic id %q: want %d hexadecimal digits", text, 2*len(id))
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Command is one change of the metadata: exactly one of its fields is set. In the log it is the value of a record
// with neither key nor headers:
//
//	{"v":1,"<kind>":{…}}
//
// with the field names below. Every command that was ever written is read for ever (testdata/commands.golden).
type Command struct {
	InitCluster         *InitCluster         `json:"init_cluster,omitempty"`
	RegisterBroker      *RegisterBroker      `json:"register_broker,omitempty"`
	CreateTopic         *CreateTopic         `json:"create_topic,omitempty"`
	AddPartitions       *AddPartitions       `json:"add_partitions,omitempty"`
	DeleteTopic         *DeleteTopic         `json:"delete_topic,omitempty"`
	AlterTopicConfigs   *AlterTopicConfigs   `json:"alter_topic_configs,omitempty"`
	AllocateProducerIDs *AllocateProducerIDs `json:"allocate_producer_ids,omitempty"`
	Snapshot            *Snapshot            `json:"snapshot,omitempty"`
	ChangeBroker        *ChangeBroker        `json:"change_broker,omitempty"`
	UnregisterBroker    *UnregisterBroker    `json:"unregister_broker,omitempty"`
	AllocateNodeID      *AllocateNodeID      `json:"allocate_node_id,omitempty"`
	AlterPartitions     *AlterPartitions     `json:"alter_partitions,omitempty"`
	ElectLeaders        *ElectLeaders        `json:"elect_leaders,omitempty"`
	AssignReplicas      *AssignReplicas      `json:"assign_replicas,omitempty"`
}

// InitCluster gives a new cluster its id. The first one wins; later ones change nothing.
type InitCluster struct {
	ClusterID string `json:"cluster_id"`
}

// RegisterBroker says that a broker has started (again) at an address. What it led before is led by another in-sync replica,
// or by itself in a new leader epoch. It is fenced if any other broker is registered.
type RegisterBroker struct {
	ID   int32  `json:"id"`
	Host string `json:"host,omitempty"`
	Port int32  `json:"port,omitempty"`
	Rack string `json:"rack,omitempty"`

	// Keeps is the generation in which its data folder registered last, if that has all that it ever reported as durable: then it stays in the
	// in-sync sets that it is in. 0, or another than its newest: it may lack something (log.flush=os, a folder put back from a copy), and leaves them.
	Keeps int64 `json:"keeps,omitempty"`
}

// CreateTopic makes a topic. Replicas holds one list of broker ids per partition, its leader first.
type CreateTopic struct {
	ID       ID                `json:"id"`
	Name     string            `json:"name"`
	Replicas [][]int32         `json:"replicas"`
	Configs  map[string]string `json:"configs,omitempty"`
}

// AddPartitions gives a topic that has From partitions more of them, placed as CreateTopic's are. A topic that has
// another number by then is left alone.
type AddPartitions struct {
	ID       ID        `json:"id"`
	From     int       `json:"from"`
	Replicas [][]int32 `json:"replicas"`
}

// DeleteTopic removes the topic with this id.
type DeleteTopic struct {
	ID ID `json:"id"`
}

// AlterTopicConfigs changes a topic's configs: first all are removed if Clear is set, then those of Remove, then those
// of Set are set. It says what changes, not what comes out, so that two at once don't undo each other.
type AlterTopicConfigs struct {
	ID     ID                `json:"id"`
	Clear  bool              `json:"clear,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
}

// AllocateProducerIDs gives the next Count producer ids to a broker. The result is the first of them.
type AllocateProducerIDs struct {
	Broker int32 `json:"broker"`
	Count  int64 `json:"count"`
}

// ChangeBroker changes the state of a broker that has registered Generation times, and no more.
type ChangeBroker struct {
	ID         int32       `json:"id"`
	Generation int64       `json:"generation"`
	To         BrokerState `json:"to"`
}

// UnregisterBroker forgets a broker that is not active and holds no replica.
type UnregisterBroker struct {
	ID int32 `json:"id"`
}

// AllocateNodeID takes a node id that was never taken nor registered: Want, or the next one if Want is 0. The result is the id.
type AllocateNodeID struct {
	Want int32 `json:"want,omitempty"`
}

// AlterPartitions changes in-sync sets of partitions that Broker, in its present Generation, leads. Each change is taken or
// refused for itself.
type AlterPartitions struct {
	Broker     int32       `json:"broker"`
	Generation int64       `json:"generation"`
	Changes    []ISRChange `json:"changes"`
}

// ISRChange is the in-sync set that a leader wants. It is refused unless both epochs are the present ones and every new member
// is an active replica of the named generation.
type ISRChange struct {
	ID             ID      `json:"id"`
	Partition      int32   `json:"partition"`
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	ISR            []int32 `json:"isr"`
	Generations    []int64 `json:"generations"` // of the brokers in ISR, in the same order
}

// PartitionRef names a partition.
type PartitionRef struct {
	ID        ID    `json:"id"`
	Partition int32 `json:"partition"`
}

// ElectLeaders elects leaders of the partitions named, or of all. Each is changed or refused for itself.
type ElectLeaders struct {
	How        Election       `json:"how"`
	Partitions []PartitionRef `json:"partitions,omitempty"` // none: all
}

// Election says who is to lead.
type Election string

// The elections.
const (
	ElectPreferred Election = "preferred" // the first replica, if it is active and in sync
	ElectUnclean   Election = "unclean"   // the first active replica of a partition without leader, which may lose records
)

// AssignReplicas moves partitions to other replicas. Each change is taken or refused for itself.
type AssignReplicas struct {
	Changes []Assignment `json:"changes"`
}

// Assignment is where a partition is to live, its preferred leader first; without replicas it ends a move under way.
type Assignment struct {
	ID        ID      `json:"id"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas,omitempty"`
}

// versioned is a command as it is written. By names the proposal, so that its proposer knows it again; entries before there were
// several nodes have none.
type versioned struct {
	V  int    `json:"v"`
	By string `json:"by,omitempty"`
	Command
}

// Encode is the command's bytes in the log, without the name of a proposal.
func (c Command) Encode() ([]byte, error) { return c.encodeBy("") }

func (c Command) encodeBy(by string) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return json.Marshal(versioned{V: commandVersion, By: by, Command: c})
}

// Decode reads what Encode wrote. The command shares nothing with b.
func Decode(b []byte) (Command, error) {
	c, _, err := decodeBy(b)
	return c, err
}

// decodeBy is Decode, with the proposal's name.
func decodeBy(b []byte) (c Command, by string, err error) {
	var v versioned
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return Command{}, "", fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if dec.More() {
		return Command{}, "", fmt.Errorf("%w: bytes after the command", ErrVersion)
	}
	if v.V != commandVersion {
		return Command{}, "", fmt.Errorf("%w: version %d, known is %d", ErrVersion, v.V, commandVersion)
	}
	return v.Command, v.By, v.Command.check()
}

// check reports a command that isn't exactly one change, or whose numbers make no sense.
func (c Command) check() error {
	kinds := 0
	for _, set := range []bool{
		c.InitCluster != nil, c.RegisterBroker != nil, c.CreateTopic != nil, c.AddPartitions != nil,
		c.DeleteTopic != nil, c.AlterTopicConfigs != nil, c.AllocateProducerIDs != nil, c.Snapshot != nil,
		c.ChangeBroker != nil, c.UnregisterBroker != nil, c.AllocateNodeID != nil, c.AlterPartitions != nil,
		c.ElectLeaders != nil, c.AssignReplicas != nil,
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%w: %d changes in one", ErrVersion, kinds)
	}
	switch {
	case c.CreateTopic != nil:
		if c.CreateTopic.Name == "" {
			return fmt.Errorf("%w: a topic without a name", ErrVersion)
		}
		return checkReplicas(c.CreateTopic.Replicas)
	case c.AddPartitions != nil:
		return checkReplicas(c.AddPartitions.Replicas)
	case c.Snapshot != nil:
		return c.Snapshot.check()
	case c.AllocateProducerIDs != nil && c.AllocateProducerIDs.Count < 1:
		return fmt.Errorf("%w: %d producer ids", ErrVersion, c.AllocateProducerIDs.Count)
	}
	return c.checkCluster()
}

// checkCluster is check for the commands that speak of several brokers.
func (c Command) checkCluster() error {
	switch {
	case c.ChangeBroker != nil && !c.ChangeBroker.To.known():
		return fmt.Errorf("%w: broker state %q", ErrVersion, c.ChangeBroker.To)
	case c.AllocateNodeID != nil && c.AllocateNodeID.Want < 0:
		return fmt.Errorf("%w: node id %d", ErrVersion, c.AllocateNodeID.Want)
	case c.AlterPartitions != nil:
		for _, a := range c.AlterPartitions.Changes {
			if len(a.ISR) == 0 || len(a.ISR) != len(a.Generations) {
				return fmt.Errorf("%w: in-sync set %v of generations %v", ErrVersion, a.ISR, a.Generations)
			}
		}
	case c.ElectLeaders != nil && c.ElectLeaders.How != ElectPreferred && c.ElectLeaders.How != ElectUnclean:
		return fmt.Errorf("%w: election %q", ErrVersion, c.ElectLeaders.How)
	}
	return nil
}

func checkReplicas(replicas [][]int32) error {
	if len(replicas) == 0 {
		return fmt.Errorf("%w: no partitions", ErrVersion)
	}
	for i, r := range replicas {
		if len(r) == 0 {
			return fmt.Errorf("%w: partition %d has no replica", ErrVersion, i)
		}
	}
	return nil
}
