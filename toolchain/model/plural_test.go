package model

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A kind without +kubebuilder:resource:path gets the plural that controller-gen v0.23.0 gives it.
func TestPluralMatchesControllerGen(t *testing.T) {
	const kinds = `At ats, Pizza pizzas, Topping toppings, Welcome welcomes, ProjectConfig projectconfigs,
		Policy policies, NetworkPolicy networkpolicies, Gateway gateways, Proxy proxies, Key keys, Query queries, Toy toys,
		Soliloquy soliloquies, Class classes, StorageClass storageclasses, Address addresses, Status statuses,
		Process processes, Redis redis, Postgres postgres, Prometheus prometheuses, Kubernetes kubernetes,
		Endpoints endpoints, Settings settings, Box boxes, BusyBox busyboxes, Index indices, AppIndex appindices,
		Matrix matrices, Prefix prefixes, Nginx nginxes, Quartz quartzes, Quiz quizzes, Batch batches, Cache caches,
		Mesh meshes, Branch branches, Leaf leaves, Shelf shelves, Proof proofs, Belief beliefs, Life lives, Roof roofs,
		Database databases, Warehouse warehouses, Release releases, Phase phases, Analysis analyses, Axis axes, Basis bases,
		Bus buses, Alias aliases, NetworkAlias networkaliases, Networkalias networkalias, Demo demoes, GitRepo gitrepoes,
		Hero heroes, Photo photos, Radio radios, Silo silos, Portfolio portfolios, Zoo zoos, Person people, Child children,
		Woman women, Human humans, Data data, UserData userdata, Metadata metadata, News news, Series series,
		Memcached memcacheds, Schema schemas, Criterion criteria, Quantum quanta, Quorum quorums, Drum drums,
		Consortium consortia, Apex apices, Helix helices, Nucleus nuclei, Blouse blouses, MyBlouse myblouses, Mouse mice,
		House houses, DNS dnses, ClusterDNS clusterdnses, HTTPRoute httproutes, X xs, A as`
	for pair := range strings.SplitSeq(kinds, ",") {
		kind, want, _ := strings.Cut(strings.TrimSpace(pair), " ")
		assert.Equalf(t, Plural(kind), want, "Plural(%q)", kind)
	}
	assert.Equalf(t, Plural(""), "", `Plural("")`)
}

// The plural of a word that ends in two words of the dictionary is always the same.
func TestPluralIsDeterministic(t *testing.T) {
	for range 200 {
		require.Equalf(t, Plural("Myblouse"), "myblouses", `Plural("Myblouse")`)
	}
}
