package main

import "net/http"

// familyStream creates and changes Services with one and two IP families.
func familyStream(k *kind, seed uint64) *stream {
	return &stream{name: "services/families", steps: func(own string) []step {
		b := &builder{kind: k, own: own, rnd: newRand(seed, "families")}
		b.steps = append(b.steps, inNamespace(own))
		for _, policy := range []any{nil, "SingleStack", "PreferDualStack", "RequireDualStack", "Other"} {
			for _, families := range []any{nil, []any{}, []any{"IPv4"}, []any{"IPv6"}, []any{"IPv4", "IPv6"},
				[]any{"IPv6", "IPv4"}, []any{"IPv4", "IPv4"}, []any{"IPv5"}} {
				for _, ips := range [][]any{nil, {"None"}, {"10.0.0.77"}, {"fd00::77"}, {"10.0.0.77", "fd00::77"},
					{"fd00::77", "10.0.0.77"}, {"192.0.2.1"}} {
					obj := b.obj("f")
					set(obj, policy, "spec", "ipFamilyPolicy")
					set(obj, families, "spec", "ipFamilies")
					if ips != nil {
						set(obj, ips[0], "spec", "clusterIP")
						set(obj, ips, "spec", "clusterIPs")
					}
					b.add("create with families", http.MethodPost, b.coll("dryRun=All"), body(obj))
				}
			}
		}
		for _, from := range []string{"SingleStack", "PreferDualStack"} {
			b.create("u", func(o fieldMap) { set(o, from, "spec", "ipFamilyPolicy") })
			for _, change := range []string{
				`{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`, `{"spec":{"ipFamilyPolicy":"SingleStack"}}`,
				`{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv4","IPv6"]}}`,
				`{"spec":{"ipFamilies":["IPv6","IPv4"]}}`,
				`{"spec":{"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}}`, `{"spec":{"ipFamilies":["IPv6"]}}`,
				`{"spec":{"ipFamilyPolicy":null}}`,
				`{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":"","clusterIPs":null}}`,
				`{"spec":{"type":"ClusterIP","externalName":null}}`,
				`{"spec":{"type":"NodePort"}}`, `{"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local"}}`,
				`{"spec":{"type":"ClusterIP","externalTrafficPolicy":null}}`,
			} {
				b.add("change of families", http.MethodPatch, b.named("u"), bytesBody(mergePatch, change))
			}
			b.add("delete", http.MethodDelete, b.named("u"))
		}
		return b.steps
	}}
}
