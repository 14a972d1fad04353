package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
)

const (
	introduceEvery  = 250 * time.Millisecond // while something is missing
	introducedEvery = time.Second            // else it is looked so often whether something is
)

// errForeign is a node that shares its list with nodes of another cluster only.
var errForeign = errors.New("the data folder is of another cluster than the nodes of --join")

// introducer finds out where the others are, as long as the metadata doesn't tell, and has this node made a member of the metadata's group if it
// isn't one: a node that has just got its id knows nobody, and one that was founded knows only ids. It asks the addresses that the
// configuration names and those that it has been told.
type introducer struct {
	mu    sync.Mutex
	found map[int32]introduction

	// What follows is the stepping goroutine's.
	asked map[string]bool  // under way
	heard map[string]error // how the newest question to an address of the configuration ended; nil: by a node that may be of this cluster
	isMet bool             // there was one
}

// introduction is where a node is. It counts more than the metadata until that has another registration of the node.
type introduction struct {
	address    string
	generation int64 // that the metadata had
}

// addresses is where the nodes are, as far as it is known.
func (b *Broker) addresses() map[int32]string {
	nodes := make(map[int32]string)
	b.meta.View(func(img *meta.Image) {
		i := &b.introducer
		i.mu.Lock()
		defer i.mu.Unlock()
		for id, in := range i.found {
			if n, _ := img.Broker(id); n.Generation == in.generation {
				nodes[id] = in.address
			}
		}
		for _, n := range img.Brokers() {
			if n.Host != "" && nodes[n.ID] == "" {
				nodes[n.ID] = net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
			}
		}
	})
	return nodes
}

// introduced takes a node's address, from itself, or from others where nothing is known.
func (b *Broker) introduced(id int32, addr string) {
	if id == b.cfg.NodeID || id <= 0 || addr == "" {
		return
	}
	in := introduction{address: addr}
	b.meta.View(func(img *meta.Image) {
		n, _ := img.Broker(id)
		in.generation = n.Generation
	})
	i := &b.introducer
	i.mu.Lock()
	isNews := i.found[id] != in
	if i.found == nil {
		i.found = make(map[int32]introduction)
	}
	i.found[id] = in
	i.mu.Unlock()
	if isNews {
		b.nodesChanged()
	}
}

// introduce asks whoever there is to ask, now and again. Called by a timer.
func (b *Broker) introduce(now time.Time) {
	if b.Err() != nil {
		return
	}
	i := &b.introducer
	if i.asked == nil {
		i.asked, i.heard = make(map[string]bool), make(map[string]error)
	}
	others := b.listed()
	isMissing := b.missing()
	if !isMissing && (i.isMet || len(others) == 0) {
		b.after(now, introducedEvery, b.introduce)
		return
	}
	known := b.addresses()
	delete(known, b.cfg.NodeID)
	for _, addr := range append(others, slices.Sorted(maps.Values(known))...) {
		if i.asked[addr] {
			continue
		}
		i.asked[addr] = true
		b.tcp.callAddr(addr, &privateRequest{key: keyProbe, body: []byte("{}")}, func(resp *privateResponse, err error) {
			var a probeAnswer
			if err == nil {
				err = errOf(refusedBy(resp), resp.decode(&a))
			}
			b.timers.at(b.cfg.Now(), func(now time.Time) { b.answeredProbe(addr, &a, err, now) })
		})
	}
	pause := introducedEvery
	if isMissing {
		pause = introduceEvery
	}
	b.after(now, pause, b.introduce)
}

// listed is the others that the configuration names.
func (b *Broker) listed() []string {
	own := b.Advertised()
	return slices.DeleteFunc(slices.Clone(b.cfg.Join), func(addr string) bool { return addr == own })
}

// missing says that there is no leader, or a member whose address isn't known.
func (b *Broker) missing() bool {
	if b.leader.Load() == 0 {
		return true
	}
	known := b.addresses()
	for _, m := range b.meta.Status().Members {
		if m.Node != b.cfg.NodeID && known[m.Node] == "" {
			return true
		}
	}
	return false
}

// answeredProbe takes a node's answer, or why there is none.
func (b *Broker) answeredProbe(addr string, a *probeAnswer, err error, now time.Time) {
	i := &b.introducer
	delete(i.asked, addr)
	isListed := slices.Contains(b.cfg.Join, addr)
	if isListed {
		i.heard[addr] = err
	}
	switch {
	case err != nil:
		b.checkForeign()
		return
	case a.Token == b.tcp.start: // this node itself, under another name
		delete(i.heard, addr)
		return
	}
	i.isMet = i.isMet || isListed
	switch {
	case a.State == stateFresh || a.State == stateFounded:
		return // in no cluster yet: it asks this one
	case a.Node == b.cfg.NodeID:
		b.end(fmt.Errorf("node %d, which is at %s: %w", a.Node, addr, errSameID))
		return
	}
	b.introduced(a.Node, addr)
	known := b.addresses()
	for _, id := range slices.Sorted(maps.Keys(a.Nodes)) {
		if known[id] == "" {
			b.introduced(id, a.Nodes[id])
		}
	}
	if a.State == stateMember && b.leader.Load() == 0 && !slices.Contains(a.Members, b.cfg.NodeID) {
		b.askToJoin(addr)
	}
}

// checkForeign ends a node that has a folder of one cluster, and a list of nodes of another: its folder was put there by mistake, or the list was.
func (b *Broker) checkForeign() {
	others, heard := b.listed(), b.introducer.heard
	for _, addr := range others {
		if !errors.Is(heard[addr], errPeerCluster) {
			return
		}
	}
	if len(others) > 0 && (b.leader.Load() == 0 || b.isAlone()) {
		b.end(fmt.Errorf("%w: %s is node %d's of cluster %s: take it away to join them, or correct --join (%w)",
			errForeign, b.cfg.Dir, b.cfg.NodeID, b.ClusterID(), heard[others[0]]))
	}
}

// askToJoin asks a member to make this node one.
func (b *Broker) askToJoin(addr string) {
	body, err := json.Marshal(joinRequest{Node: b.cfg.NodeID, Address: b.Advertised()})
	if err != nil {
		b.log.Error("can't ask to be made a member", "error", err)
		return
	}
	b.tcp.callAddr(addr, &privateRequest{key: keyJoin, body: body}, func(resp *privateResponse, err error) {
		if err = errOf(err, refusedBy(resp)); err != nil { // only the leader can; it is asked again with the next probe
			b.log.Debug("not made a member yet", "by", addr, "error", err)
		}
	})
}
