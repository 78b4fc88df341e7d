// Package wire knows how answers look on the wire: which representation a client asked for, and how objects, lists, watch events
// and errors are put together in it.
//
// Its unit is the bare encoding of one object in one medium: what stands between two commas of a JSON list, in one field of a
// protobuf list, in one slot of a CBOR array. Bare encodings are made once ([Encode]) and kept by the caller; everything around
// them is put on without touching them again.
//
//	                 ┌─▶ Object  one answer       {…}\n          k8s\0 + Unknown{…}      tag + map
//	object ─Encode─▶ │─▶ List    concatenation    {"items":[…]}  repeated field 2        array
//	      (bare)     └─▶ Event   one watch frame  {"type":…}\n   length + WatchEvent     tag + map
//
// JSON, protobuf and CBOR have bare encodings; YAML and indented JSON are made of the finished JSON.
//
// All functions are safe for concurrent use and keep no state.
//
//	format, err := wire.Negotiate(req, wire.Allow{Table: true})
//	if err != nil {
//		wire.Error(w, req, err) // 406
//		return
//	}
//	wire.Object(w, req, http.StatusOK, format, gvk, bare)
package wire
