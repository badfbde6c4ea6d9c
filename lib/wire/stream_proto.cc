#include "lib/wire/stream_proto.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// As the limit of file systems: longer names no folder has.
constexpr size_t kMostFileName = 4096;

}  // namespace

uint64_t ReadPositions(Reader& reader, const char* field, uint64_t value) {
  if (value <= kMostSamples) return value;
  reader.Refuse(field, absl::StrCat(value, " is more than ", kMostSamples));
  return 0;
}

void Write(const SpoolSegment& segment, v1::SpoolSegment& out) {
  out.set_number(segment.number);
  out.set_writer_hi(segment.writer.hi);
  out.set_writer_lo(segment.writer.lo);
  out.set_first(segment.first);
  out.set_count(segment.count);
}

SpoolSegment Read(Reader& reader, const v1::SpoolSegment& message) {
  return {reader.Number("number", message.number()),
          {message.writer_hi(), message.writer_lo()},
          ReadPositions(reader, "first", message.first()),
          ReadPositions(reader, "count", message.count())};
}

void Write(const StreamPlace& place, v1::StreamPlace& out) {
  out.set_file(place.file);
  out.set_sample(place.sample);
  out.set_bytes(place.identity.bytes);
  out.set_inode(place.identity.inode);
  out.set_modified(place.identity.modified);
  out.set_changed(place.identity.changed);
  out.set_seen(place.seen);
}

StreamPlace Read(Reader& reader, const v1::StreamPlace& message) {
  StreamPlace place;
  if (message.file().size() > kMostFileName)
    reader.Refuse("file", absl::StrCat(message.file().size(), " bytes; at most ", kMostFileName,
                                       " are allowed"));
  else
    place.file = message.file();
  place.sample = ReadPositions(reader, "sample", message.sample());
  place.identity = {message.bytes(), message.inode(), message.modified(), message.changed()};
  place.seen = message.seen();
  return place;
}

void Write(const SpoolFrom& from, v1::SpoolFrom& out) {
  out.set_term(from.term.value());
  out.set_positions(from.positions);
  Write(from.place, *out.mutable_place());
  out.set_next_segment(from.next_segment);
  out.set_needed(from.needed);
  out.set_room(from.room);
}

SpoolFrom Read(Reader& reader, const v1::SpoolFrom& message) {
  SpoolFrom from;
  from.term = TermNumber(reader.Number("term", message.term()));
  from.positions = ReadPositions(reader, "positions", message.positions());
  {
    const Reader::Scope scope(reader, "place");
    from.place = Read(reader, message.place());
  }
  from.next_segment = reader.Number("next_segment", message.next_segment());
  from.needed = ReadPositions(reader, "needed", message.needed());
  from.room = ReadPositions(reader, "room", message.room());
  return from;
}

void Write(const Spooled& spooled, v1::Spooled& out) {
  out.set_segment(spooled.segment);
  out.set_first(spooled.first);
  out.set_count(spooled.count);
  Write(spooled.place, *out.mutable_place());
  out.set_end(spooled.end);
}

Spooled Read(Reader& reader, const v1::Spooled& message) {
  Spooled spooled;
  spooled.segment = reader.Number("segment", message.segment());
  spooled.first = ReadPositions(reader, "first", message.first());
  spooled.count = ReadPositions(reader, "count", message.count());
  const Reader::Scope scope(reader, "place");
  spooled.place = Read(reader, message.place());
  spooled.end = message.end();
  return spooled;
}

void Write(const AckSpooled& ack, v1::AckSpooled& out) {
  out.set_term(ack.term.value());
  out.set_positions(ack.positions);
  out.set_needed(ack.needed);
  out.set_room(ack.room);
}

AckSpooled Read(Reader& reader, const v1::AckSpooled& message) {
  return {TermNumber(reader.Number("term", message.term())),
          ReadPositions(reader, "positions", message.positions()),
          ReadPositions(reader, "needed", message.needed()),
          ReadPositions(reader, "room", message.room())};
}

void Write(const StreamIs& stream, v1::StreamIs& out) {
  out.set_term(stream.term.value());
  out.set_positions(stream.positions);
  if (stream.end) out.set_end(*stream.end);
  for (const SpoolSegment& segment : stream.segments) Write(segment, *out.add_segments());
}

StreamIs Read(Reader& reader, const v1::StreamIs& message) {
  StreamIs stream;
  stream.term = TermNumber(reader.Number("term", message.term()));
  stream.positions = ReadPositions(reader, "positions", message.positions());
  if (message.has_end()) stream.end = ReadPositions(reader, "end", message.end());
  if (!reader.Count("segments", message.segments_size(), kMostSpoolSegments)) return stream;
  stream.segments.reserve(static_cast<size_t>(message.segments_size()));
  for (int i = 0; i < message.segments_size() && reader.ok(); ++i) {
    const Reader::Scope scope(reader, "segments", i);
    stream.segments.push_back(Read(reader, message.segments(i)));
  }
  return stream;
}

}  // namespace muster
