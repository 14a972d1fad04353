package worker

import (
	"encoding/binary"
	"errors"
)

// The bytes that Kafka Connect's workers exchange through their group's coordinator. Big-endian; a string has an int16
// length before it, an array or nullable bytes an int32 one, -1 for null.
//
//	metadata    int16 version │ string url │ int64 configOffset │ (from version 1) nullable bytes currentAssignment
//	assignment  int16 version │ int16 error │ string leader │ string leaderUrl │ int64 configOffset
//	            │ nullable array assigned │ nullable array revoked │ int32 delayMs
//
// The version is that of the protocol under which they are sent: 0 eager, 1 compatible, 2 sessioned. A member that
// leads alone needs no more of the assignment than its head; what assigned and revoked hold is read by nobody here yet.

// groupProtocolType is what a group of Connect workers is, in the words of JoinGroup and DescribeGroups.
const groupProtocolType = "connect"

const groupWireVersion = 2

var errGroupWire = errors.New("not the metadata of a Connect worker")

// memberMetadata says where a member's REST is and how far it has read the config topic.
func memberMetadata(url string, configOffset int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, groupWireVersion)
	b = appendGroupString(b, url)
	b = binary.BigEndian.AppendUint64(b, uint64(configOffset))
	return binary.BigEndian.AppendUint32(b, 0xffffffff) // no assignment
}

// leaderAssignment is what a member that is alone gives itself.
func leaderAssignment(memberID, url string, configOffset int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, groupWireVersion)
	b = binary.BigEndian.AppendUint16(b, 0) // no error
	b = appendGroupString(b, memberID)
	b = appendGroupString(b, url)
	b = binary.BigEndian.AppendUint64(b, uint64(configOffset))
	b = binary.BigEndian.AppendUint32(b, 0)          // nothing is assigned by name: who is alone has all
	b = binary.BigEndian.AppendUint32(b, 0xffffffff) // nothing is revoked
	return binary.BigEndian.AppendUint32(b, 0)
}

// memberURL reads a member's address from its metadata, of any version.
func memberURL(metadata []byte) (string, error) {
	const head = 4 // version and the string's length
	if len(metadata) < head {
		return "", errGroupWire
	}
	size := int(binary.BigEndian.Uint16(metadata[2:]))
	if len(metadata) < head+size+8 {
		return "", errGroupWire
	}
	return string(metadata[head : head+size]), nil
}

func appendGroupString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
