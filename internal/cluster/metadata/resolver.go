package metadata

import (
	"moldau/internal/config"
	"moldau/internal/kafka"
)

// Resolver lays the configurations that the image holds over the static settings of a node.
func (i *Image) Resolver(static *config.Static, node kafka.NodeID) *config.Resolver {
	return config.NewResolver(static, node, func(t config.ResourceType, name string) config.Stored {
		return i.Config(ResourceType(t), name)
	})
}
