package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// finding is one difference between two responses.
type finding struct {
	where        string // "status", "header Warning", "body.spec.replicas"; without indices
	peer, kelson string
}

// comparer has the data that must be consistent over a whole stream: the pairs of corresponding
// uids and resource versions.
type comparer struct {
	own       string            // the stream's name; "" also compares objects of other streams
	uids      map[string]string // the peer's → Kelson's
	kelsonUID map[string]string // Kelson's → the peer's
	versions  map[uint64]uint64 // the peer's revisions → Kelson's
	found     []finding
}

func newComparer(own string) *comparer {
	return &comparer{own: own, uids: map[string]string{}, kelsonUID: map[string]string{}, versions: map[uint64]uint64{}}
}

func (c *comparer) differ(where, peer, kelson string) {
	c.found = append(c.found, finding{where, peer, kelson})
}

// answers compares the two responses to a request.
func (c *comparer) answers(peer, kelson *answer) []finding {
	c.found = nil
	if peer.failed != "" || kelson.failed != "" {
		if peer.failed == "" || kelson.failed == "" {
			c.differ("connection", peer.failed, kelson.failed)
		}
		return c.found
	}
	if peer.proto != kelson.proto {
		c.differ("protocol", peer.proto, kelson.proto)
	}
	if peer.status != kelson.status {
		c.differ("status", statusText(peer), statusText(kelson))
		if peer.status/100 != kelson.status/100 {
			return c.found // the bodies of a success and an error can't be compared
		}
	}
	c.headers(peer.header, kelson.header)
	c.value("body", "", peer.body, kelson.body)
	return c.found
}

// statusText includes the reason of an unexpected status code.
func statusText(a *answer) string {
	text := strconv.Itoa(a.status)
	if body, ok := a.body.(map[string]any); ok && body["kind"] == "Status" && a.status >= 300 {
		text += fmt.Sprint(" ", plain(fmt.Sprint(body["message"])))
	}
	return text
}

// ofConnection are headers that depend on the connection.
var ofConnection = []string{"Date", "Content-Length", "Connection"}

// ofBuild are members of the document at /version that depend on how a server was built.
var ofBuild = []string{"buildDate", "gitCommit", "gitTreeState", "gitVersion"}

// random are headers with random values: only their presence is compared.
var random = []string{"Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid", "Etag",
	"Last-Modified", "Expires", "Process-Start-Time-Unix"}

func (c *comparer) headers(peer, kelson http.Header) {
	names := map[string]bool{}
	for name := range peer {
		names[name] = true
	}
	for name := range kelson {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if slices.Contains(ofConnection, name) {
			continue
		}
		p, k := peer.Values(name), kelson.Values(name)
		if name == "Vary" { // a set
			slices.Sort(p)
			slices.Sort(k)
		}
		if slices.Contains(random, name) && len(p) == len(k) {
			continue
		}
		if p, k := plain(strings.Join(p, " | ")), plain(strings.Join(k, " | ")); p != k {
			c.differ("header "+name, p, k)
		}
	}
}

// value compares two JSON values. key is the last field name in the path.
func (c *comparer) value(where, key string, peer, kelson any) {
	switch p := peer.(type) {
	case map[string]any:
		if k, ok := kelson.(map[string]any); ok {
			c.objects(where, p, k)
			return
		}
	case []any:
		if k, ok := kelson.([]any); ok {
			c.lists(where, key, p, k)
			return
		}
	case string:
		if k, ok := kelson.(string); ok {
			c.text(where, key, p, k)
			return
		}
	}
	if p, k := short(peer), short(kelson); p != k && !(allocated[key] && isNumber(peer) && isNumber(kelson)) {
		c.differ(where, p, k)
	}
}

// allocated are numbers that a server allocates randomly.
var allocated = map[string]bool{"nodePort": true, "healthCheckNodePort": true}

func isNumber(v any) bool {
	_, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return v != nil && err == nil
}

func (c *comparer) objects(where string, peer, kelson map[string]any) {
	names := map[string]bool{}
	for name := range peer {
		names[name] = true
	}
	for name := range kelson {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p, inPeer := peer[name]
		k, inKelson := kelson[name]
		at := where + "." + name
		switch {
		case c.own != "" && foreign(name, c.own): // in documents
		case where == "body" && peer["gitVersion"] != nil && slices.Contains(ofBuild, name):
		case !inPeer:
			c.differ(at, "(absent)", short(k))
		case !inKelson:
			c.differ(at, short(p), "(absent)")
		case (name == "uid" || name == "resourceVersion") &&
			plain(fmt.Sprint(peer["name"])) != fmt.Sprint(peer["name"]):
			// generated names have a different order on each side
		case name == "resourceVersion" && c.own != "" && !isList(where, peer) && !c.belongs(peer):
			// the servers create their initial objects in different orders
		case name == "resourceVersion" && isList(where, peer):
			if (p == "") != (k == "") || (p == "0") != (k == "0") {
				c.differ(at, short(p), short(k)) // a list's version increases with every write
			}
		default:
			c.value(at, name, p, k)
		}
	}
}

// isList reports whether metadata is that of a list: it has no name.
func isList(where string, meta map[string]any) bool {
	return strings.HasSuffix(where, "metadata") && meta["name"] == nil && meta["generateName"] == nil
}

// unordered are lists that kube-apiserver creates from maps, so that their order is random.
var unordered = map[string]bool{"resourceRules": true, "nonResourceRules": true, "causes": true}

func (c *comparer) lists(where, key string, peer, kelson []any) {
	if key == "items" || key == "groups" || where == "body" {
		peer, kelson = c.mine(peer), c.mine(kelson)
	}
	if where == "body" {
		peer, kelson = randomLast(peer), randomLast(kelson)
	}
	if key == "items" {
		sortUnstored(peer)
		sortUnstored(kelson)
		sortGenerated(peer)
		sortGenerated(kelson)
	}
	if unordered[key] {
		byText := func(a, b any) int { return strings.Compare(plain(mustJSON(a)), plain(mustJSON(b))) }
		slices.SortStableFunc(peer, byText)
		slices.SortStableFunc(kelson, byText)
	}
	if key == "managedFields" {
		sortManagers(peer)
		sortManagers(kelson)
	}
	if len(peer) != len(kelson) && catalogues[key] {
		c.catalogue(where, key, peer, kelson)
		return
	}
	if len(peer) != len(kelson) {
		c.differ(where+"(length)", fmt.Sprintf("%d: %s", len(peer), outline(peer)),
			fmt.Sprintf("%d: %s", len(kelson), outline(kelson)))
		return
	}
	for i := range peer {
		c.value(where+"[]", key, peer[i], kelson[i])
	}
}

// catalogues are lists in discovery documents. Entries are compared by name, so that a missing
// entry does not affect the others.
var catalogues = map[string]bool{"groups": true, "resources": true, "subresources": true, "versions": true,
	"items": true}

func (c *comparer) catalogue(where, key string, peer, kelson []any) {
	entry := func(v any) string {
		for _, path := range [][]string{{"metadata", "name"}, {"name"}, {"resource"}, {"subresource"}, {"version"}} {
			if name := at(v, path...); name != nil {
				return fmt.Sprint(name)
			}
		}
		return ""
	}
	missing := func(from, in []any) (names []string) {
		for _, v := range from {
			if !slices.ContainsFunc(in, func(o any) bool { return plain(entry(o)) == plain(entry(v)) }) {
				names = append(names, plain(entry(v)))
			}
		}
		return names
	}
	peerOnly, kelsonOnly := missing(peer, kelson), missing(kelson, peer)
	if len(peerOnly)+len(kelsonOnly) == 0 { // duplicate entries
		c.differ(where+"(length)", fmt.Sprintf("%d: %s", len(peer), outline(peer)),
			fmt.Sprintf("%d: %s", len(kelson), outline(kelson)))
		return
	}
	for _, name := range peerOnly {
		c.differ(where+"["+name+"]", "there", "(absent)")
	}
	for _, name := range kelsonOnly {
		c.differ(where+"["+name+"]", "(absent)", "there")
	}
	for _, p := range peer {
		if i := slices.IndexFunc(kelson, func(k any) bool { return plain(entry(k)) == plain(entry(p)) }); i >= 0 {
			c.value(where+"[]", key, p, kelson[i])
		}
	}
}

// mine removes objects of other streams from a list or a watch.
func (c *comparer) mine(items []any) []any {
	return slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		if at(item, "type") != nil {
			item = at(item, "object")
		}
		for _, name := range []any{at(item, "name"), at(item, "metadata", "name"), at(item, "metadata", "namespace")} {
			if c.own != "" && name != nil && foreign(fmt.Sprint(name), c.own) {
				return true
			}
		}
		return false
	})
}

// belongs reports whether metadata is that of an object of the stream.
func (c *comparer) belongs(meta map[string]any) bool {
	return meta["namespace"] == c.own || at(meta, "labels", "stream") == c.own ||
		strings.Contains(fmt.Sprint(meta["name"]), c.own) || meta["name"] == nil
}

// foreign reports whether a name belongs to another stream.
func foreign(name, own string) bool {
	return streamed.MatchString(name) && !strings.Contains(name, own)
}

// sortUnstored sorts a list of ComponentStatuses, which have a random order, by name.
func sortUnstored(items []any) {
	if len(items) > 0 && at(items[0], "conditions") != nil && at(items[0], "metadata", "uid") == nil {
		slices.SortFunc(items, func(a, b any) int {
			return strings.Compare(fmt.Sprint(at(a, "metadata", "name")), fmt.Sprint(at(b, "metadata", "name")))
		})
	}
}

// sortGenerated sorts a list with generated names by the fixed part of the names, and then by
// revision.
func sortGenerated(items []any) {
	name := func(item any) string { return fmt.Sprint(at(item, "metadata", "name")) }
	revision := func(item any) uint64 {
		n, _ := strconv.ParseUint(fmt.Sprint(at(item, "metadata", "resourceVersion")), 10, 64)
		return n
	}
	if !slices.ContainsFunc(items, func(item any) bool { return plain(name(item)) != name(item) }) {
		return
	}
	slices.SortStableFunc(items, func(a, b any) int {
		return cmp.Or(cmp.Compare(plain(name(a)), plain(name(b))), cmp.Compare(revision(a), revision(b)))
	})
}

// randomLast moves the events of objects with completely random names, such as those of LimitRanges
// without a name, to the end: when collections are deleted in the order of names, such events can
// come anywhere.
func randomLast(events []any) []any {
	name := func(event any) string {
		obj := at(event, "object")
		if rows, _ := at(obj, "rows").([]any); len(rows) > 0 {
			obj = at(rows[0], "object")
		}
		return fmt.Sprint(at(obj, "metadata", "name"))
	}
	random := func(event any) bool { return at(event, "type") != nil && plain(name(event)) == "<uid>" }
	return slices.SortedStableFunc(slices.Values(events), func(a, b any) int {
		switch ra, rb := random(a), random(b); {
		case !ra && !rb:
			return 0
		case ra && rb:
			return strings.Compare(fmt.Sprint(at(a, "type")), fmt.Sprint(at(b, "type")))
		case ra:
			return 1
		}
		return -1
	})
}

// sortManagers sorts entries independently of the second in which they were created.
func sortManagers(entries []any) {
	sort.SliceStable(entries, func(i, j int) bool { return managerKey(entries[i]) < managerKey(entries[j]) })
}

func managerKey(entry any) string {
	e, _ := entry.(map[string]any)
	return fmt.Sprint(e["manager"], e["operation"], e["apiVersion"], e["subresource"])
}

// text compares two strings, by their type.
func (c *comparer) text(where, key, peer, kelson string) {
	switch key {
	case "uid":
		if uuid.MatchString(peer) && uuid.MatchString(kelson) {
			c.uid(where, peer, kelson)
			return
		}
	case "resourceVersion":
		p, errP := strconv.ParseUint(peer, 10, 64)
		k, errK := strconv.ParseUint(kelson, 10, 64)
		if errP == nil && errK == nil {
			c.version(where, p, k)
			return
		}
	case "continue":
		if (peer == "") != (kelson == "") {
			c.differ(where, short(peer), short(kelson))
		}
		return
	}
	if p, k := plain(peer), plain(kelson); p != k {
		c.differ(where, short(p), short(k))
	}
}

func (c *comparer) uid(where, peer, kelson string) {
	knownK, okP := c.uids[peer]
	knownP, okK := c.kelsonUID[kelson]
	switch {
	case !okP && !okK:
		c.uids[peer], c.kelsonUID[kelson] = kelson, peer
	case knownK != kelson || knownP != peer:
		c.differ(where, seen("uid", okP), seen("uid", okK))
	}
}

func seen(what string, known bool) string {
	if known {
		return "a known " + what
	}
	return "a new " + what
}

// version compares the order of revisions: it must be the same on both sides.
func (c *comparer) version(where string, peer, kelson uint64) {
	for p, k := range c.versions {
		if (p < peer) != (k < kelson) || (p == peer) != (k == kelson) {
			c.differ(where, relation(p, peer), relation(k, kelson))
			return
		}
	}
	c.versions[peer] = kelson
}

func relation(known, now uint64) string {
	switch {
	case now == known:
		return "the same as one before"
	case now < known:
		return "older than one before"
	}
	return "newer than one before"
}

var (
	uuid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	micro    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)
	second   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	goTime   = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} [A-Z]+( m=[+-][\d.]+)?`)
	address  = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d{4,5}\b`)
	revision = regexp.MustCompile(`(resource version: )\d+|(current: )\d+|(\()\d+(\)$)|(in record \()\d+(\))|(in precondition \()\d{2,}(\))|(ResourceVersion in object meta: )\d+`)
	nodePort = regexp.MustCompile(`("nodePort\\*":|healthCheckNodePort\\*":|:)3[0-2]\d{3}\b`)
	problem  = regexp.MustCompile(`(?s)^(.*: errors:)\n(.*)$`)
	// the merge library stops at the first of a map's unknown fields, in random order, so that
	// their number is random too
	undeclared = regexp.MustCompile(`(?s)^(failed to create typed patch object \([^)]*\): )(.*: field not declared in schema.*)$`)
	hash       = regexp.MustCompile(`hash=[0-9A-F]+`)
	// errors of claim templates have the order of a map
	volume   = regexp.MustCompile(`\bvolumes\[\d+\]`)
	token    = regexp.MustCompile(`\beyJ2Ijoi[A-Za-z0-9_-]+`)
	streamed = regexp.MustCompile(`(?:^|[./])d-[sk]\d+-`)
	invalid  = regexp.MustCompile(`(?s)^(.* is invalid: \[)(.*)(\])$`)
	inText   = regexp.MustCompile(`(\\?"resourceVersion\\?":\\?")\d+|(resourceVersion:)\d+`)
	suffix   = regexp.MustCompile(`(-gen-|\bBad_)[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	service  = regexp.MustCompile(`\b(10\.0\.0|192\.168\.0)\.\d+\b|\bfd00::[0-9a-f]+\b`)
	age      = regexp.MustCompile(`^(<invalid>|\d+s)$`)
	pointer  = regexp.MustCompile(`\b0x[c0-9a-f]{8,}\b`)
	read     = regexp.MustCompile(`not decodable revision=\d+`)
	managers = regexp.MustCompile(`managedFields\\*":\[`)
)

// plain removes the parts of a text that necessarily differ.
func plain(s string) string {
	s = uuid.ReplaceAllString(s, "<uid>")
	s = micro.ReplaceAllString(s, "<time.micro>")
	s = second.ReplaceAllString(s, "<time>")
	s = goTime.ReplaceAllString(s, "<go time>")
	s = address.ReplaceAllString(s, "<address>")
	s = revision.ReplaceAllString(s, "$1$2$3$5$7$9<revision>$4$6$8")
	s = read.ReplaceAllString(s, "not decodable revision=<revision>")
	s = nodePort.ReplaceAllString(s, "$1<node port>")
	s = undeclared.ReplaceAllString(s, "$1<fields not declared in schema>")
	// errors of structured merges, in any order
	if parts := problem.FindStringSubmatch(s); parts != nil {
		lines := strings.Split(parts[2], "\n")
		slices.Sort(lines)
		s = parts[1] + "\n" + strings.Join(lines, "\n")
	}
	s = hash.ReplaceAllString(s, "hash=<hash>")
	s = volume.ReplaceAllString(s, "volumes[]")
	s = token.ReplaceAllString(s, "<continue>")
	// these errors have the order of a map
	if parts := invalid.FindStringSubmatch(s); parts != nil {
		problems := strings.Split(parts[2], ", ")
		slices.Sort(problems)
		s = parts[1] + strings.Join(problems, ", ") + parts[3]
	}
	s = inText.ReplaceAllString(s, "$1$2<revision>")
	s = suffix.ReplaceAllString(s, "$1<suffix>")
	s = service.ReplaceAllString(s, "<service ip>")
	s = pointer.ReplaceAllString(s, "<pointer>")
	return managersSorted(age.ReplaceAllString(s, "<age>"))
}

// managersSorted sorts the entries of managedFields in a text that quotes an object, like
// sortManagers.
func managersSorted(s string) string {
	at := managers.FindStringIndex(s)
	if at == nil {
		return s
	}
	list := s[at[1]:]
	var entries []string
	depth, begin := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '[', '{':
			depth++
			continue
		case ']', '}':
			depth--
		}
		if depth < 0 || depth == 0 && list[i] == ',' {
			entries = append(entries, list[begin:i])
			begin = i + 1
		}
		if depth < 0 {
			slices.Sort(entries)
			return s[:at[1]] + strings.Join(entries, ",") + managersSorted(list[i:])
		}
	}
	return s
}

// short shows a value in one line.
func short(v any) string {
	text, ok := v.(string)
	if !ok {
		text = mustJSON(v)
	}
	if text = plain(text); len(text) > 600 {
		text = text[:600] + "…"
	}
	return text
}

// outline summarizes a list.
func outline(list []any) string {
	var items []string
	for _, item := range list {
		items = append(items, short(describe(item)))
	}
	text := strings.Join(items, ", ")
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	return text
}

// describe returns the name of an event or an object, and other values unchanged.
func describe(item any) any {
	m, ok := item.(map[string]any)
	if !ok {
		return item
	}
	if event, ok := m["type"].(string); ok && m["object"] != nil {
		return event + " " + short(describe(m["object"]))
	}
	if meta, ok := m["metadata"].(map[string]any); ok && meta["name"] != nil {
		return meta["name"]
	}
	return item
}
