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
}

// InitCluster gives a new cluster its id. The first one wins; later ones change nothing.
type InitCluster struct {
	ClusterID string `json:"cluster_id"`
}

// RegisterBroker says that a broker has started (again) at an address. It raises the leader epoch of every partition
// that the broker leads.
type RegisterBroker struct {
	ID   int32  `json:"id"`
	Host string `json:"host,omitempty"`
	Port int32  `json:"port,omitempty"`
	Rack string `json:"rack,omitempty"`
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

// versioned is a command as it is written.
type versioned struct {
	V int `json:"v"`
	Command
}

// Encode is the command's bytes in the log.
func (c Command) Encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return json.Marshal(versioned{V: commandVersion, Command: c})
}

// Decode reads what Encode wrote. The command shares nothing with b.
func Decode(b []byte) (Command, error) {
	var v versioned
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if dec.More() {
		return Command{}, fmt.Errorf("%w: bytes after the command", ErrVersion)
	}
	if v.V != commandVersion {
		return Command{}, fmt.Errorf("%w: version %d, known is %d", ErrVersion, v.V, commandVersion)
	}
	return v.Command, v.Command.check()
}

// check reports a command that isn't exactly one change, or whose numbers make no sense.
func (c Command) check() error {
	kinds := 0
	for _, set := range []bool{
		c.InitCluster != nil, c.RegisterBroker != nil, c.CreateTopic != nil, c.AddPartitions != nil,
		c.DeleteTopic != nil, c.AlterTopicConfigs != nil, c.AllocateProducerIDs != nil, c.Snapshot != nil,
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%w: %d changes in one", ErrVersion, kinds)
	}
	if t := c.CreateTopic; t != nil {
		if t.Name == "" {
			return fmt.Errorf("%w: a topic without a name", ErrVersion)
		}
		if err := checkReplicas(t.Replicas); err != nil {
			return err
		}
	}
	if a := c.AddPartitions; a != nil {
		if err := checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	if s := c.Snapshot; s != nil {
		return s.check()
	}
	if a := c.AllocateProducerIDs; a != nil && a.Count < 1 {
		return fmt.Errorf("%w: %d producer ids", ErrVersion, a.Count)
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
