import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.File;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.*;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Asks the real Java converters and transforms and writes their answers down: cases in, answers out.
 *
 *   mvn dependency:copy-dependencies -DoutputDirectory=libs
 *   javac -cp 'libs/*' -d classes Golden.java
 *   java -Duser.timezone=UTC -cp 'libs/*:classes' Golden convert ../cases.json ../answers.json
 *   java -Duser.timezone=UTC -cp 'libs/*:classes' Golden transform ../../../transform/testdata/cases.json ../../../transform/testdata/answers.json
 */
public class Golden {
  static final ObjectMapper M = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    ObjectNode in = (ObjectNode) M.readTree(new File(args[1]));
    ObjectNode out = M.createObjectNode();
    if (args[0].equals("convert")) {
      out.set("encode", encode(in.get("encode"), in.get("encoders")));
      out.set("decode", decode(in.get("decode")));
      out.set("floats", floats(in.get("floats")));
    } else {
      out.set("answers", transforms(in.get("cases")));
    }
    M.writerWithDefaultPrettyPrinter().writeValue(new File(args[2]), out);
  }

  static ObjectNode encode(JsonNode cases, JsonNode encoders) throws Exception {
    ObjectNode out = M.createObjectNode();
    for (JsonNode c : cases) {
      ObjectNode answers = out.putObject(c.get("name").asText());
      for (JsonNode e : encoders) {
        Object conv = open(e.get("class").asText(), props(e.get("props")));
        try {
          Schema s = schema(c.get("schema"));
          Object v = value(s, c.get("value"));
          byte[] b = conv instanceof Converter && !(conv instanceof SimpleHeaderConverter) ? ((Converter) conv).fromConnectData("t", s, v)
              : ((HeaderConverter) conv).fromConnectHeader("t", "h", s, v);
          answers.set(e.get("name").asText(), text(b));
        } catch (Exception x) {
          answers.put(e.get("name").asText(), "error");
        }
      }
    }
    return out;
  }

  static JsonNode text(byte[] b) {
    return b == null ? NullNode.instance : TextNode.valueOf("=" + new String(b, StandardCharsets.ISO_8859_1));
  }

  static ObjectNode decode(JsonNode groups) throws Exception {
    ObjectNode out = M.createObjectNode();
    for (JsonNode g : groups) {
      Object conv = open(g.get("class").asText(), props(g.get("props")));
      ObjectNode answers = out.putObject(g.get("name").asText());
      for (JsonNode t : g.get("inputs")) {
        byte[] b = t.isNull() ? null : t.asText().getBytes(g.has("binary") ? StandardCharsets.ISO_8859_1 : StandardCharsets.UTF_8);
        try {
          SchemaAndValue sv = conv instanceof Converter && !(conv instanceof SimpleHeaderConverter) ? ((Converter) conv).toConnectData("t", b)
              : ((HeaderConverter) conv).toConnectHeader("t", "h", b);
          ObjectNode a = answers.putObject(t.asText());
          a.set("schema", dump(sv.schema()));
          a.set("value", dump(sv.schema(), sv.value()));
        } catch (Exception x) {
          answers.put(t.asText(), "error");
        }
      }
    }
    return out;
  }

  static ObjectNode floats(JsonNode in) {
    ObjectNode out = M.createObjectNode();
    for (JsonNode f : in) {
      ArrayNode a = out.putArray(f.asText());
      a.add(Double.toString(Double.parseDouble(f.asText())));
      a.add(Float.toString(Float.parseFloat(f.asText())));
    }
    return out;
  }

  static Object open(String cls, Map<String, Object> props) throws Exception {
    Object c = Class.forName(cls).getDeclaredConstructor().newInstance();
    if (c instanceof SimpleHeaderConverter) ((SimpleHeaderConverter) c).configure(props);
    else ((Converter) c).configure(props, false);
    return c;
  }

  static Map<String, Object> props(JsonNode n) {
    Map<String, Object> m = new HashMap<>();
    if (n != null) n.fields().forEachRemaining(e -> m.put(e.getKey(), e.getValue().asText()));
    return m;
  }

  // ---- schemas and values in the cases' notation

  static Schema schema(JsonNode n) {
    if (n == null || n.isNull()) return null;
    SchemaBuilder b;
    switch (n.get("t").asText()) {
      case "array": b = SchemaBuilder.array(schema(n.get("v"))); break;
      case "map": b = SchemaBuilder.map(schema(n.get("k")), schema(n.get("v"))); break;
      case "struct":
        b = SchemaBuilder.struct();
        for (JsonNode f : n.get("f")) b.field(f.get(0).asText(), schema(f.get(1)));
        break;
      default: b = SchemaBuilder.type(type(n.get("t").asText()));
    }
    if (n.has("opt")) b.optional();
    if (n.has("name")) b.name(n.get("name").asText());
    if (n.has("ver")) b.version(n.get("ver").asInt());
    if (n.has("doc")) b.doc(n.get("doc").asText());
    if (n.has("params")) for (JsonNode p : n.get("params")) b.parameter(p.get(0).asText(), p.get(1).asText());
    if (n.has("def")) b.defaultValue(value(b, n.get("def")));
    return b.build();
  }

  static Schema.Type type(String t) {
    if (t.equals("float")) return Schema.Type.FLOAT32;
    if (t.equals("double")) return Schema.Type.FLOAT64;
    return Schema.Type.valueOf(t.toUpperCase());
  }

  static Object value(Schema s, JsonNode n) {
    if (n == null || n.isNull()) return null;
    String k = n.fieldNames().next();
    JsonNode v = n.get(k);
    String name = s == null ? null : s.name();
    switch (k) {
      case "b": return v.asBoolean();
      case "i8": return Byte.parseByte(v.asText());
      case "i16": return Short.parseShort(v.asText());
      case "i32":
        int i = Integer.parseInt(v.asText());
        if (Date.LOGICAL_NAME.equals(name)) return new java.util.Date(i * 86400000L);
        if (Time.LOGICAL_NAME.equals(name)) return new java.util.Date((long) i);
        return i;
      case "i64":
        long l = Long.parseLong(v.asText());
        return Timestamp.LOGICAL_NAME.equals(name) ? new java.util.Date(l) : (Object) l;
      case "f32": return Float.parseFloat(v.asText());
      case "f64": return Double.parseDouble(v.asText());
      case "s": return v.asText();
      case "x": return HexFormat.of().parseHex(v.asText());
      case "d": return new BigDecimal(v.asText());
      case "a": {
        List<Object> out = new ArrayList<>();
        for (JsonNode e : v) out.add(value(s == null ? null : s.valueSchema(), e));
        return out;
      }
      case "m": {
        Map<Object, Object> out = new LinkedHashMap<>();
        for (JsonNode e : v) out.put(value(s == null ? null : s.keySchema(), e.get(0)), value(s == null ? null : s.valueSchema(), e.get(1)));
        return out;
      }
      case "o": {
        Struct out = new Struct(s);
        for (int j = 0; j < v.size(); j++) if (!v.get(j).isNull()) out.put(s.fields().get(j), value(s.fields().get(j).schema(), v.get(j)));
        return out;
      }
    }
    throw new IllegalArgumentException(k);
  }

  static JsonNode dump(Schema s) {
    if (s == null) return NullNode.instance;
    ObjectNode n = M.createObjectNode();
    n.put("t", s.type() == Schema.Type.FLOAT32 ? "float" : s.type() == Schema.Type.FLOAT64 ? "double" : s.type().getName());
    if (s.isOptional()) n.put("opt", true);
    if (s.name() != null) n.put("name", s.name());
    if (s.version() != null) n.put("ver", s.version());
    if (s.doc() != null) n.put("doc", s.doc());
    if (s.parameters() != null && !s.parameters().isEmpty()) {
      ArrayNode a = n.putArray("params");
      s.parameters().forEach((k, v) -> a.addArray().add(k).add(v));
    }
    if (s.defaultValue() != null) n.set("def", dump(s, s.defaultValue()));
    if (s.type() == Schema.Type.STRUCT) {
      ArrayNode a = n.putArray("f");
      for (Field f : s.fields()) a.addArray().add(f.name()).add(dump(f.schema()));
    }
    if (s.type() == Schema.Type.MAP) n.set("k", dump(s.keySchema()));
    if (s.type() == Schema.Type.MAP || s.type() == Schema.Type.ARRAY) n.set("v", dump(s.valueSchema()));
    return n;
  }

  static JsonNode dump(Schema s, Object v) {
    if (v == null) return NullNode.instance;
    ObjectNode n = M.createObjectNode();
    if (v instanceof Boolean) return n.put("b", (Boolean) v);
    if (v instanceof Byte) return n.put("i8", v.toString());
    if (v instanceof Short) return n.put("i16", v.toString());
    if (v instanceof Integer) return n.put("i32", v.toString());
    if (v instanceof Long) return n.put("i64", v.toString());
    if (v instanceof Float) return n.put("f32", v.toString());
    if (v instanceof Double) return n.put("f64", v.toString());
    if (v instanceof String) return n.put("s", (String) v);
    if (v instanceof byte[]) return n.put("x", HexFormat.of().formatHex((byte[]) v));
    if (v instanceof BigDecimal) return n.put("d", ((BigDecimal) v).toPlainString());
    if (v instanceof java.util.Date) {
      long t = ((java.util.Date) v).getTime();
      if (Date.LOGICAL_NAME.equals(s.name())) return n.put("i32", Long.toString(t / 86400000L));
      return n.put(Time.LOGICAL_NAME.equals(s.name()) ? "i32" : "i64", Long.toString(t));
    }
    if (v instanceof List) {
      ArrayNode a = n.putArray("a");
      for (Object e : (List<?>) v) a.add(dump(s == null ? null : s.valueSchema(), e));
      return n;
    }
    if (v instanceof Map) {
      List<ArrayNode> pairs = new ArrayList<>();
      ((Map<?, ?>) v).forEach((k, x) -> pairs.add(M.createArrayNode().add(dump(s == null ? null : s.keySchema(), k)).add(dump(s == null ? null : s.valueSchema(), x))));
      pairs.sort(Comparator.comparing(p -> p.get(0).toString()));
      n.putArray("m").addAll(pairs);
      return n;
    }
    if (v instanceof Struct) {
      ArrayNode a = n.putArray("o");
      for (Field f : s.fields()) a.add(dump(f.schema(), ((Struct) v).getWithoutDefault(f.name())));
      return n;
    }
    throw new IllegalArgumentException(v.getClass().toString());
  }

  // ---- transforms: records travel as what the JsonConverter reads and writes

  static ObjectNode transforms(JsonNode cases) throws Exception {
    ObjectNode out = M.createObjectNode();
    for (JsonNode c : cases) {
      String name = c.get("name").asText();
      try {
        out.set(name, transform(c));
      } catch (Exception x) {
        ObjectNode e = out.putObject(name);
        e.put("error", String.valueOf(x.getMessage()));
      }
    }
    return out;
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  static JsonNode transform(JsonNode c) throws Exception {
    boolean schemas = c.get("schemas").asBoolean();
    JsonConverter conv = new JsonConverter();
    conv.configure(Map.of("schemas.enable", Boolean.toString(schemas), "replace.null.with.default", "false"), false);
    ConnectRecord r = record(conv, c);
    Map<String, Object> cfg = props(c.get("config"));
    if (c.has("predicate")) {
      Predicate p = (Predicate) Class.forName(c.get("predicate").asText()).getDeclaredConstructor().newInstance();
      p.configure(cfg);
      ObjectNode n = M.createObjectNode();
      return n.put("test", p.test(r));
    }
    Transformation t = (Transformation) Class.forName(c.get("class").asText()).getDeclaredConstructor().newInstance();
    t.configure(cfg);
    r = t.apply(r);
    ObjectNode n = M.createObjectNode();
    if (r == null) return n.put("dropped", true);
    n.put("topic", r.topic());
    if (r.timestamp() != null) n.put("ts", r.timestamp());
    n.set("key", utf8(conv.fromConnectData("t", r.keySchema(), r.key())));
    n.set("value", utf8(conv.fromConnectData("t", r.valueSchema(), r.value())));
    ArrayNode hs = n.putArray("headers");
    for (Header h : (Iterable<Header>) r.headers()) hs.addArray().add(h.key()).add(utf8(conv.fromConnectData("t", h.schema(), h.value())));
    return n;
  }

  static JsonNode utf8(byte[] b) {
    return b == null ? NullNode.instance : TextNode.valueOf(new String(b, StandardCharsets.UTF_8));
  }

  static ConnectRecord<?> record(JsonConverter conv, JsonNode c) {
    SchemaAndValue k = data(conv, c.get("key")), v = data(conv, c.get("value"));
    String topic = c.get("topic").asText();
    Long ts = c.has("ts") ? (Long) c.get("ts").asLong() : null;
    ConnectRecord<?> r;
    if (c.has("offset"))
      r = new SinkRecord(topic, 3, k.schema(), k.value(), v.schema(), v.value(), c.get("offset").asLong(), ts, org.apache.kafka.common.record.TimestampType.CREATE_TIME);
    else r = new SourceRecord(Map.of(), Map.of(), topic, null, k.schema(), k.value(), v.schema(), v.value(), ts);
    if (c.has("headers"))
      for (JsonNode h : c.get("headers")) {
        SchemaAndValue sv = data(conv, h.get(1));
        r.headers().add(h.get(0).asText(), sv);
      }
    return r;
  }

  static SchemaAndValue data(JsonConverter conv, JsonNode n) {
    return n == null || n.isNull() ? SchemaAndValue.NULL : conv.toConnectData("t", n.toString().getBytes(StandardCharsets.UTF_8));
  }
}
