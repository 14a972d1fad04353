package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newGroup(c *cli) *cobra.Command {
	return group("group", "Consumer groups: list, describe, reset, delete", newGroupList(c), newGroupDescribe(c), newGroupReset(c), newGroupDelete(c))
}

type groupRow struct {
	Group       string `json:"group"`
	Type        string `json:"protocol_type"`
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator"`
}

func newGroupList(c *cli) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List consumer groups", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			groups, err := adm.ListGroups(cmd.Context())
			if err != nil {
				return fmt.Errorf("list groups: %w", err)
			}
			l := listing{columns: []string{"GROUP", "TYPE", "STATE"}, cells: func(v any) []string {
				g := v.(groupRow)
				return []string{g.Group, cmp.Or(g.Type, "-"), g.State}
			}}
			for _, g := range groups.Sorted() {
				l.rows = append(l.rows, groupRow{g.Group, g.ProtocolType, g.State, g.Coordinator})
			}
			return c.print(cmd, l)
		})
	}}
}

type groupDescription struct {
	Group     string     `json:"group"`
	State     string     `json:"state"`
	Protocol  string     `json:"protocol"`
	Members   []memberID `json:"members"`
	Offsets   []lagRow   `json:"offsets"`
	TotalLag  int64      `json:"total_lag"`
	LagFaults int        `json:"lag_errors,omitempty"`
}

type memberID struct {
	ID       string `json:"member_id"`
	Instance string `json:"instance_id,omitempty"`
	Client   string `json:"client_id"`
	Host     string `json:"host"`
}

type lagRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"`
	End       int64  `json:"end_offset"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member_id,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	Fault     string `json:"error,omitempty"`
}

func newGroupDescribe(c *cli) *cobra.Command {
	return &cobra.Command{Use: "describe GROUP…", Short: "Show groups' members, offsets and lag", Args: someArgs("GROUP"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			lags, err := adm.Lag(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("describe groups: %w", err)
			}
			var all []groupDescription
			for _, g := range lags.Sorted() {
				if err := g.Error(); err != nil {
					return fmt.Errorf("group %s: %w", g.Group, err)
				}
				all = append(all, describeGroup(g))
			}
			if c.output != "table" {
				return c.encode(cmd.OutOrStdout(), all)
			}
			for _, d := range all {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, %d members, lag %d\n", d.Group, d.State, len(d.Members), d.TotalLag)
				l := listing{columns: []string{"  TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"}, cells: func(v any) []string {
					r := v.(lagRow)
					return []string{"  " + r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.Committed, 10), strconv.FormatInt(r.End, 10), cmp.Or(r.Fault, strconv.FormatInt(r.Lag, 10)), cmp.Or(r.Member, "-")}
				}}
				for _, r := range d.Offsets {
					l.rows = append(l.rows, r)
				}
				if err := c.print(cmd, l); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

func describeGroup(g kadm.DescribedGroupLag) groupDescription {
	d := groupDescription{Group: g.Group, State: g.State, Protocol: g.Protocol, TotalLag: g.Lag.Total()}
	for _, m := range g.Members {
		row := memberID{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			row.Instance = *m.InstanceID
		}
		d.Members = append(d.Members, row)
	}
	for _, l := range g.Lag.Sorted() {
		row := lagRow{Topic: l.Topic, Partition: l.Partition, Committed: l.Commit.At, End: l.End.Offset, Lag: l.Lag, Metadata: l.Commit.Metadata}
		if l.Member != nil {
			row.Member = l.Member.MemberID
		}
		if l.Err != nil {
			row.Fault = l.Err.Error()
			d.LagFaults++
		}
		d.Offsets = append(d.Offsets, row)
	}
	return d
}

type resetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from_offset"`
	To        int64  `json:"to_offset"`
}

func newGroupReset(c *cli) *cobra.Command {
	var topics []string
	var to string
	var execute bool
	cmd := &cobra.Command{Use: "reset GROUP --to WHERE", Short: "Move a group's committed offsets (shows the plan; --execute does it)", Args: exactArgs("GROUP"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			rows, err := planReset(cmd.Context(), adm, args[0], topics, to)
			if err != nil {
				return err
			}
			if execute {
				offsets := kadm.Offsets{}
				for _, r := range rows {
					offsets.AddOffset(r.Topic, r.Partition, r.To, -1)
				}
				answers, err := adm.CommitOffsets(cmd.Context(), args[0], offsets)
				if err == nil {
					err = answers.Error()
				}
				if err != nil {
					return fmt.Errorf("reset offsets of %s (its members must be stopped): %w", args[0], err)
				}
			} else {
				fmt.Fprintln(cmd.ErrOrStderr(), "plan only; --execute does it")
			}
			l := listing{columns: []string{"TOPIC", "PARTITION", "FROM", "TO"}, cells: func(v any) []string {
				r := v.(resetRow)
				return []string{r.Topic, strconv.Itoa(int(r.Partition)), strconv.FormatInt(r.From, 10), strconv.FormatInt(r.To, 10)}
			}}
			for _, r := range rows {
				l.rows = append(l.rows, r)
			}
			return c.print(cmd, l)
		})
	}}
	cmd.Flags().StringArrayVar(&topics, "topic", nil, "topic; may be repeated; none: all that the group has committed")
	cmd.Flags().StringVar(&to, "to", "", "beginning, end, an offset, +N or -N (from the committed one), @TIME (milliseconds or RFC 3339)")
	cmd.Flags().BoolVar(&execute, "execute", false, "do it")
	return cmd
}

// planReset works out where each partition goes, kept within its log.
func planReset(ctx context.Context, adm *kadm.Client, group string, topics []string, to string) ([]resetRow, error) {
	if to == "" {
		return nil, fmt.Errorf("%w: --to is needed", errUsage)
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	if len(topics) == 0 {
		for t := range committed {
			topics = append(topics, t)
		}
	}
	if len(topics) == 0 {
		return nil, fmt.Errorf("group %s has committed nothing: name topics with --topic", group)
	}
	begins, err := adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = begins.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	target, err := resetTarget(ctx, adm, topics, to, begins, ends)
	if err != nil {
		return nil, err
	}
	var rows []resetRow
	ends.Each(func(end kadm.ListedOffset) {
		r := resetRow{Topic: end.Topic, Partition: end.Partition, From: -1}
		if o, ok := committed.Lookup(end.Topic, end.Partition); ok {
			r.From = o.At
		}
		begin, _ := begins.Lookup(end.Topic, end.Partition)
		r.To = min(max(target(r), begin.Offset), end.Offset)
		rows = append(rows, r)
	})
	slices.SortFunc(rows, func(a, b resetRow) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rows, nil
}

// resetTarget gives the function from a partition to where --to sends it.
func resetTarget(ctx context.Context, adm *kadm.Client, topics []string, to string, begins, ends kadm.ListedOffsets) (func(resetRow) int64, error) {
	at := func(list kadm.ListedOffsets) func(resetRow) int64 {
		return func(r resetRow) int64 {
			o, _ := list.Lookup(r.Topic, r.Partition)
			return o.Offset
		}
	}
	switch {
	case to == "beginning" || to == "earliest":
		return at(begins), nil
	case to == "end" || to == "latest":
		return at(ends), nil
	case strings.HasPrefix(to, "@"):
		ms, err := parseTime(to[1:])
		if err != nil {
			return nil, err
		}
		list, err := adm.ListOffsetsAfterMilli(ctx, ms, topics...)
		if err == nil {
			err = list.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("list offsets at %d: %w", ms, err)
		}
		return at(list), nil
	}
	n, err := strconv.ParseInt(to, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: --to %s: want beginning, end, an offset, +N, -N or @TIME", errUsage, to)
	}
	if to[0] == '+' || to[0] == '-' {
		return func(r resetRow) int64 { return max(r.From, 0) + n }, nil
	}
	return func(resetRow) int64 { return n }, nil
}

func newGroupDelete(c *cli) *cobra.Command {
	return &cobra.Command{Use: "delete GROUP…", Short: "Delete groups with their offsets", Args: someArgs("GROUP"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			answers, err := adm.DeleteGroups(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("delete groups: %w", err)
			}
			return eachTopic(cmd, answers.Sorted(), "deleted", func(r kadm.DeleteGroupResponse) (string, error) { return r.Group, r.Err })
		})
	}}
}
