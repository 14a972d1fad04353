package worker

import (
	"encoding/json"
	"fmt"

	"github.com/weirlog/weir/connect"
)

// State is the state of a connector or task, as Kafka Connect spells it.
type State string

// The states. Stopped is a state of connectors only.
const (
	Unassigned State = "UNASSIGNED"
	Running    State = "RUNNING"
	Paused     State = "PAUSED"
	Failed     State = "FAILED"
	Restarting State = "RESTARTING"
	Stopped    State = "STOPPED"
)

// Target is what a user wants a connector to be.
type Target string

// The target states.
const (
	TargetStarted Target = "STARTED"
	TargetPaused  Target = "PAUSED"
	TargetStopped Target = "STOPPED"
)

// ServerInfo answers GET /.
type ServerInfo struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	ClusterID string `json:"kafka_cluster_id"`
}

// Health answers GET /health: "healthy", "starting" or "unhealthy".
type Health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// TaskID names a task.
type TaskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

// String gives the id as Kafka Connect prints it: "name-0".
func (id TaskID) String() string { return fmt.Sprintf("%s-%d", id.Connector, id.Task) }

// Info describes a connector: its configuration with inline secrets masked.
type Info struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Tasks  []TaskID          `json:"tasks"`
	Type   string            `json:"type"` // source, sink, unknown
}

// TaskInfo is one task's configuration, inline secrets masked.
type TaskInfo struct {
	ID     TaskID            `json:"id"`
	Config map[string]string `json:"config"`
}

// ConnectorState is the state of a connector itself.
type ConnectorState struct {
	State    State  `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"` // of FAILED the fault; of RUNNING what is being retried
	Version  string `json:"version,omitempty"`
}

// TaskState is the state of one task.
type TaskState struct {
	ID       int    `json:"id"`
	State    State  `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
	Version  string `json:"version,omitempty"`
}

// Status is the state of a connector and its tasks, sorted by id.
type Status struct {
	Name      string         `json:"name"`
	Connector ConnectorState `json:"connector"`
	Tasks     []TaskState    `json:"tasks"`
	Type      string         `json:"type"`
}

// Plugin is one class that the worker knows.
type Plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"` // source, sink, converter, header_converter, transformation, predicate
	Version string `json:"version,omitempty"`
}

// Definition describes one configuration key in the shape of Kafka Connect's ConfigKeyInfo.
type Definition struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	Required      bool     `json:"required"`
	DefaultValue  *string  `json:"default_value"`
	Importance    string   `json:"importance"`
	Documentation string   `json:"documentation"`
	Group         *string  `json:"group"`
	Width         string   `json:"width"`
	DisplayName   string   `json:"display_name"`
	Dependents    []string `json:"dependents"`
	Order         int      `json:"order"` // as Kafka Connect 3 calls it; tools read it
	OrderInGroup  int      `json:"order_in_group"`
}

// Value is what validation says of one key, in the shape of Kafka Connect's ConfigValueInfo.
type Value struct {
	Name        string   `json:"name"`
	Value       *string  `json:"value"`
	Recommended []string `json:"recommended_values"`
	Errors      []string `json:"errors"`
	Visible     bool     `json:"visible"`
}

// ConfigInfo pairs a key's definition (nil for a key that nothing defines) with its value.
type ConfigInfo struct {
	Definition *Definition `json:"definition"`
	Value      Value       `json:"value"`
}

// Validation answers a validate request.
type Validation struct {
	Name       string       `json:"name"`
	ErrorCount int          `json:"error_count"`
	Groups     []string     `json:"groups"`
	Configs    []ConfigInfo `json:"configs"`
}

// OffsetEntry is one partition with its offset: of a source as it wrote them, of a sink {"kafka_topic", "kafka_partition"}
// and {"kafka_offset"}. A nil Offset asks for a reset.
type OffsetEntry struct {
	Partition connect.OffsetMap `json:"partition"`
	Offset    connect.OffsetMap `json:"offset"`
}

// Offsets answers GET offsets and is the body of PATCH offsets.
type Offsets struct {
	Offsets []OffsetEntry `json:"offsets"`
}

// Error is a refusal with the HTTP status that Kafka Connect gives it. Other errors of the worker's methods are failures
// (status 500).
type Error struct {
	Status  int
	Message string
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// HTTPStatus gives the status.
func (e *Error) HTTPStatus() int { return e.Status }

func notFound(format string, args ...any) error { return &Error{404, fmt.Sprintf(format, args...)} }
func badRequest(format string, args ...any) error {
	return &Error{400, fmt.Sprintf(format, args...)}
}
func conflict(format string, args ...any) error { return &Error{409, fmt.Sprintf(format, args...)} }

// mustJSON encodes what always encodes: maps and structs of strings and numbers.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("worker: " + err.Error())
	}
	return b
}
