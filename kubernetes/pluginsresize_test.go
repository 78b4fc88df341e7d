package kubernetes_test

import "testing"

// LimitRanges also apply to the resize of a pod.
func TestLimitRangeAtResize(t *testing.T) {
	const (
		strategic = "Content-Type: application/strategic-merge-patch+json"
		limits    = `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"500m"},"min":{"cpu":"50m"}},{"type":"Pod","max":{"cpu":"600m"}}]}}`
		resources = `,"resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"200m"}}`
	)
	resize := func(request, limit string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + request +
			`"},"limits":{"cpu":"` + limit + `"}}}]}}`
	}
	inBubble(t, func(p plane) {
		p.want(201, "POST", ns+"/limitranges", limits)
		p.want(201, "POST", ns+"/pods", pod("a", resources, ""))
		p.refused("PATCH", ns+"/pods/a/resize", resize("100m", "550m"),
			"maximum cpu usage per Container is 500m, but limit is 550m", strategic)
		p.refused("PATCH", ns+"/pods/a/resize", resize("100m", "1"),
			"maximum cpu usage per Pod is 600m, but limit is 1", strategic)
		p.refused("PATCH", ns+"/pods/a/resize", resize("10m", "200m"),
			"minimum cpu usage per Container is 50m, but request is 10m", strategic)
		p.want(200, "PATCH", ns+"/pods/a/resize", resize("200m", "500m"), strategic)
	})
	withoutPlugins(t, func(p plane) {
		p.want(201, "POST", ns+"/limitranges", limits)
		p.want(201, "POST", ns+"/pods", pod("a", resources, ""))
		p.want(200, "PATCH", ns+"/pods/a/resize", resize("100m", "1"), strategic)
	}, "LimitRanger")
}
