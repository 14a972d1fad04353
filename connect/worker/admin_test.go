package worker

import (
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func admin(c *kgo.Client) *kadm.Client { return kadm.NewClient(c) }
