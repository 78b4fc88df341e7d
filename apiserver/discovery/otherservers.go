package discovery

import (
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Others describes the group versions that other servers serve, and those of the registry whose
// priorities are not the default. It is immutable.
type Others map[schema.GroupVersion]Other

// Other describes how discovery lists one group version.
type Other struct {
	Priorities
	// Served means that another server serves the group version, even if the registry has kinds in
	// it. If it is false, only the priorities apply, and only if the registry serves the group
	// version.
	Served bool
	// Resources are the resources in the other server's last answer.
	Resources []apidiscoveryv2.APIResourceDiscovery
	// Stale means that the other server did not answer the last request for its resources.
	Stale bool
}
