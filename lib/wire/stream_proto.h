// For lib/wire alone: what is said of a stream, to protobuf and back. Reading trusts nothing.
#pragma once

#include "lib/domain/stream.h"
#include "lib/wire/reader.h"
#include "muster/v1/stream.pb.h"

namespace muster {

void Write(const SpoolSegment& segment, v1::SpoolSegment& out);
void Write(const StreamPlace& place, v1::StreamPlace& out);
void Write(const SpoolFrom& from, v1::SpoolFrom& out);
void Write(const Spooled& spooled, v1::Spooled& out);
void Write(const AckSpooled& ack, v1::AckSpooled& out);
void Write(const StreamIs& stream, v1::StreamIs& out);

SpoolSegment Read(Reader& reader, const v1::SpoolSegment& message);
StreamPlace Read(Reader& reader, const v1::StreamPlace& message);
SpoolFrom Read(Reader& reader, const v1::SpoolFrom& message);
Spooled Read(Reader& reader, const v1::Spooled& message);
AckSpooled Read(Reader& reader, const v1::AckSpooled& message);
StreamIs Read(Reader& reader, const v1::StreamIs& message);

// A number of positions: at most kMostSamples.
uint64_t ReadPositions(Reader& reader, const char* field, uint64_t value);

}  // namespace muster
