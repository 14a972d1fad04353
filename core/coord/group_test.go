package coord

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestManyProtocols(t *testing.T) {
	var protocols []kmsg.JoinGroupRequestProtocol
	for i := range maxProtocols + 1 {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = fmt.Sprint("p", i)
		protocols = append(protocols, p)
	}
	g := newGroup("g", newScript().now)
	if g.admits("consumer", protocols) || !g.admits("consumer", protocols[1:]) {
		t.Errorf("a member may have %d protocols and no more", maxProtocols)
	}
}

// TestVote compares with what the members say, one by one.
func TestVote(t *testing.T) {
	for _, c := range []struct {
		members [][]string
		want    string
	}{
		{[][]string{{"a", "b"}, {"b", "a"}, {"b", "a"}}, "b"},
		{[][]string{{"a", "b"}, {"b", "a"}}, "a"}, // a tie: the earliest member's choice
		{[][]string{{"a", "b", "c"}, {"c", "b"}}, "b"},
		{[][]string{{"a"}}, "a"},
	} {
		g := newGroup("g", newScript().now)
		for i, names := range c.members {
			m := &member{id: fmt.Sprint(i)}
			for _, name := range names {
				m.protocols = append(m.protocols, kmsg.JoinGroupRequestProtocol{Name: name})
			}
			g.add(m)
		}
		if got := g.vote(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.members, got, c.want)
		}
	}
}
