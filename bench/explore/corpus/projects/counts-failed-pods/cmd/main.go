// Command main is the operator counts-failed-pods of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("counts-failed-pods") }
