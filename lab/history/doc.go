// Package history keeps every version of every object: which objects existed at any revision or
// time, and how each of them changed. A history is one file, or a directory of files.
//
// A [Writer] appends versions in the order in which they were observed. Versions of one object must
// have increasing revisions; versions of different objects may arrive in any order, because a
// recorder of a real cluster has one watch per resource. A [History] reads the file. [History.At]
// and [History.AtTime] return a [State] without reading any object: a State looks up the version of
// each object when it is asked for.
//
// A [Recorder] records any cluster by its watches. A [Retainer] keeps the versions that a control
// plane of this process writes, without gaps and within bounds of age and size.
//
// # File
//
// A file consists of a header and frames. Numbers in the header and in frames are little-endian;
// numbers in records are varints.
//
//	header   "KELSONHI" version (4)
//	frame    "KHFR" length (4) checksum (4) records…
//
//	record   1 resource: JSON of a Resource; the n-th one defines resource n
//	         2 object: resource, namespace, name; the n-th one defines object n
//	         3 version: object, revision, time in ns since the previous version's, base, content
//	         4 deletion: object, revision, time
//	         5 start: revision, time: the versions before this record are the state at that moment,
//	           and the records after it are all later versions
//
// The content of a version is compressed with an earlier version as dictionary: the previous one of
// the same object, or the first one of the same resource. base is the number of versions from the
// dictionary to this version; 0 means no dictionary. At most 16 versions must be decoded to read
// one.
//
// A crash of a recorder may leave an incomplete frame at the end. Readers ignore it. Any other
// damage is an error.
//
// # Directory
//
// A Retainer writes a sequence of such files, which are named after the revision at which they
// start:
//
//	<revision>.history
//
// Each one starts with the whole state, so that the oldest file can be removed at any time. Objects
// of that state have the revision and time of their last change.
package history
