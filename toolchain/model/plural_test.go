package model

import (
	"strings"
	"testing"
)

// GEN-03: projects that name no plural keep the one that controller-gen v0.23.0 gave their kind.
func TestPlural(t *testing.T) {
	const words = `at ats, pizza pizzas, topping toppings, welcome welcomes, projectconfig projectconfigs, policy policies, networkpolicy networkpolicies,
		gateway gateways, proxy proxies, key keys, query queries, toy toys, class classes, storageclass storageclasses, address addresses, status statuses,
		process processes, redis redis, postgres postgres, prometheus prometheuses, kubernetes kubernetes, endpoints endpoints, settings settings,
		box boxes, busybox busyboxes, index indices, appindex appindices, matrix matrices, prefix prefixes, nginx nginxes, quartz quartzes, quiz quizzes,
		batch batches, cache caches, mesh meshes, branch branches, leaf leaves, shelf shelves, proof proofs, belief beliefs, life lives, roof roofs,
		database databases, warehouse warehouses, release releases, phase phases, analysis analyses, axis axes, basis bases, bus buses, alias aliases,
		networkalias networkaliases, demo demoes, gitrepo gitrepoes, hero heroes, photo photos, radio radios, zoo zoos, person people, child children,
		woman women, human humans, data data, userdata userdata, metadata metadata, news news, series series, memcached memcacheds, schema schemas,
		criterion criteria, quantum quanta, blouse blouses, mouse mice, house houses, x xes, a as`
	for pair := range strings.SplitSeq(words, ",") {
		one, want, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if got := Plural(one); got != want {
			t.Errorf("the plural of %s is %s, want %s", one, got, want)
		}
	}
	if Plural("") != "" {
		t.Error("nothing has a plural")
	}
}
