package worker

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect/provider"
)

func newResolver() (*provider.Resolver, error) { return provider.New(nil) }

func admin(c *kgo.Client) *kadm.Client { return kadm.NewClient(c) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
